"""Alerts: a condition that holds becomes an alert, and alerts are posted to a webhook.

Pure: ``conditions`` (what an alert is about), ``rules`` (facts to conditions), ``machine``
(conditions over time to alerts, and which of them to post), ``payload`` (the body of a post).
Around it: ``facts`` (from the store), ``retention`` (from the clusters), ``webhook`` (over HTTP),
and ``alerter``, which combines them as a chore of the collector.
"""
