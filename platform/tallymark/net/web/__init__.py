"""HTTP servers and their guards, for the metrics pages, the registry and the dashboards.

Reading order: :mod:`.access` (how a server is secured), :mod:`.guard` (foreign web pages),
:mod:`.login` and :mod:`.users`, :mod:`.refusal`, :mod:`.access_log`; then the two servers,
:mod:`.metrics_http` (small, on a loop) and :mod:`.server` (ASGI, in a thread), whose connections
are :mod:`.connection_bounds` with one of two parsers, :mod:`.http_compiled` (and
:mod:`.strict_requests`) or :mod:`.http_pure`.
"""
