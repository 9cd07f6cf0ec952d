"""What monitoring sees of a registry: ``GET /metrics``, for Prometheus.

Read :mod:`.counts` (each request is counted once, wherever it is answered) and then :mod:`.page`.
"""
