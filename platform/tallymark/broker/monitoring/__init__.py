"""The counters as Prometheus wants them, and the endpoint that serves them.

Read :mod:`.families` first, then :mod:`.endpoint`.
"""
