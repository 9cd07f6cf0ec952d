"""The query API, a FastAPI router that a web application mounts (the dashboards do)::

    app.state.audit_api = AuditApi.of(deployment, store)
    app.include_router(router, prefix=PREFIX)

``problems`` (what every response has: entity tags, errors as problem details), ``params`` (the
parameters of a request), ``routes`` (the resources), ``waiting`` (long polls: one read of the store
for all of them), ``watermarks`` and ``totals`` (for schedulers and for Apache Gobblin).

Times in responses are ms UTC; requests may also use ISO times. Nothing here writes to the store or
sends a request to a broker.
"""

from tallymark_audit.api.routes import PREFIX, router
from tallymark_audit.api.state import AuditApi

__all__ = ["PREFIX", "AuditApi", "router"]
