"""What alerts and metrics are made of, and what became of alerts.

Read ``watching`` (what is wrong, summed up by edge and topic) and ``backlogs`` (what readers have
not taken yet); then ``alert_log`` (the alerts that there were) and ``disagreeing`` (windows that
the two counters judge differently).
"""
