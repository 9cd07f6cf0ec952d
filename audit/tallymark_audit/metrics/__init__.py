"""The audit's figures for Prometheus.

Read :mod:`.source` first (what is read from the store), :mod:`.metrics` next (the families that
come of it), then :mod:`.endpoint` (the page that a collector serves).
"""
