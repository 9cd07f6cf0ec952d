"""Tell somebody: what is wrong becomes an alert, and alerts are posted to a webhook.

Pure: ``conditions`` (what an alert is about), ``rules`` (facts to conditions), ``machine``
(conditions over time to alerts, and what of them to tell), ``payload`` (the words). Around it:
``facts`` (out of the store), ``retention`` (asked of the clusters), ``webhook`` (over HTTP), and
``alerter``, which puts it together as a chore of the collector.
"""
