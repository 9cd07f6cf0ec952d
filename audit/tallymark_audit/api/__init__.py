"""The query API, a FastAPI router that a web application mounts (the dashboards do)::

    app.state.audit_api = AuditApi.of(deployment, store)
    app.include_router(router, prefix=PREFIX)

Read :mod:`.problems` (what every response has: entity tags, errors as problem details),
:mod:`.params` (the parameters of a request), :mod:`.lists` (pages with a cursor, and CSV by
:mod:`.csv_text`) and :mod:`.fields` first. The resources: :mod:`.judged`, :mod:`.one_window`,
:mod:`.reported`, :mod:`.happened`, :mod:`.runs`, :mod:`.summed`, :mod:`.charted` (:mod:`.periods`
is common to both); :mod:`.watermarks` with :mod:`.waiting` (long polls: one read of the store for
all of them) and :mod:`.totals` are for schedulers and for Apache Gobblin.

Times in responses are ms UTC; requests may also use ISO times. Nothing here writes to the store or
sends a request to a broker.
"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from tallymark_audit.api import (
    charted,
    happened,
    judged,
    one_window,
    reported,
    runs,
    summed,
    totals,
    watermarks,
)
from tallymark_audit.api.problems import Answer, AuditRoute, Problem
from tallymark_audit.api.state import AuditApi

PREFIX: Final = "/api/v1/audit"
router = APIRouter(route_class=AuditRoute, default_response_class=Answer, tags=["audit"])
for _room in (judged, one_window, reported, happened, runs, summed, charted, watermarks, totals):
    router.include_router(_room.router)


@router.get("/{rest:path}", include_in_schema=False)
def nothing(rest: str) -> Answer:
    """Every other path."""
    raise Problem(404, f"there is no {PREFIX}/{rest[:100]}", "see /openapi.json")


__all__ = ["PREFIX", "AuditApi", "router"]
