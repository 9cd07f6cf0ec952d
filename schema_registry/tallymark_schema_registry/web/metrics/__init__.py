"""What monitoring sees of a registry: ``GET /metrics``, for Prometheus.

Reading order: :mod:`.counts` (each request is counted once, by operation and status, wherever it is
answered) and :mod:`.page` (the families of metrics, under the names that dashboards of the
ecosystem look for, and under ours).
"""
