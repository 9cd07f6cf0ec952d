"""The audit's figures for Prometheus.

Read :mod:`.source` (what is read from the store) first, then :mod:`.metrics`.
"""
