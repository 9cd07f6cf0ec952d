"""The counters in Prometheus's form, and the HTTP endpoint that serves them.

Read :mod:`.families` first (each metric with its help text), then :mod:`.endpoint`;
:mod:`.loop_lag` measures how late the event loop is.
"""
