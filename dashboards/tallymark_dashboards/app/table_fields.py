"""What the tables in memory share, as CSV and JSON: their routers, fields, parameters, and the
clusters that are asked for."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from tallymark_audit.api import params
from tallymark_audit.api.fields import Field, Fields, flag, text, time
from tallymark_audit.api.problems import Answer, AuditRoute
from tallymark_dashboards.frame.requests import context_of
from tallymark_dashboards.snapshots.shapes import (
    ClusterState,
    GroupPartition,
    GroupState,
    TopicLag,
)

PREFIX: Final = "/api/v1"
Row = dict[str, Any]


def table_router(tag: str) -> APIRouter:
    """A router below :data:`PREFIX`, whose answers and errors are those of the audit's API."""
    return APIRouter(
        prefix=PREFIX, route_class=AuditRoute, default_response_class=Answer, tags=[tag]
    )


def known(meaning: str) -> Field:
    """A number that may not be known."""
    return Field("number", f"{meaning} Null: not known.", may_lack=True)


READ: Final[Fields] = {
    "as_of": time("When that was read; 0: never,"),
    "error": text("Why the last attempt to read it failed; empty: it did not."),
}
LAG: Final[Fields] = {
    "status": text(
        "OK, UNKNOWN, WARN, STALLED or STOPPED; of a group that of the worst partition."
    ),
    "lag": known("Messages in the log that were not read."),
    "behind_ms": known("The age of the first message that was not read (ms)."),
    "behind_at_least": flag("It is at least so old."),
}
Find = Annotated[
    params.Text, Query(max_length=params.MAX_NAME, description="Only with this in the name.")
]
GroupName = Annotated[
    params.Text | None, Query(max_length=params.MAX_NAME, description="Only this group.")
]


def states_of(request: Request, cluster: str | None) -> list[ClusterState]:
    """The clusters as they were read last; only the one of that name, if one is named."""
    found = context_of(request).snapshots.clusters
    return [one for one in found if cluster in (None, one.name)]


def lag_row(one: GroupState | GroupPartition | TopicLag) -> Row:
    """The fields :data:`LAG`."""
    return {
        "status": str(one.status),
        "lag": one.lag,
        "behind_ms": one.delay.ms if one.delay else None,
        "behind_at_least": one.delay is not None and one.delay.least,
    }
