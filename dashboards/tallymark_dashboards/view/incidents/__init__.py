"""Incidents and alerts as lines, and an incident on its line of time. Pure.

Read ``incident_rows``, then ``incident_line`` (its moments), ``mending`` (what can be repaired) and
``alert_rows``.
"""
