"""The query API, a FastAPI router that a web application mounts (the dashboards do)::

    app.state.audit_api = AuditApi.of(deployment, store)
    app.include_router(router, prefix=PREFIX)

``problems`` (what every answer has: entity tags, errors as problem details), ``params`` (what a
request may say), ``routes`` (what is asked), ``waiting`` (long polls: one look at the store for all
who wait), ``watermarks`` and ``totals`` (for schedulers and for Apache Gobblin).

Times in answers are ms UTC; requests may also say ISO times. Nothing here writes, or asks a broker.
"""

from tallymark_audit.api.routes import PREFIX, router
from tallymark_audit.api.state import AuditApi

__all__ = ["PREFIX", "AuditApi", "router"]
