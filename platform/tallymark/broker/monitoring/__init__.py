"""The counters in Prometheus's form, and the HTTP endpoint that serves them.

Read :mod:`.families` first (each metric with its help text; those of replicas are in
:mod:`.replicas`, and :mod:`.metric` is the smallest one), then :mod:`.endpoint`;
:mod:`.loop_lag` measures how late the event loop is.
"""
