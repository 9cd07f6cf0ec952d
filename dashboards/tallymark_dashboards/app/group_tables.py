"""The tables of one consumer group, as CSV and JSON: its members, and how its lag went. From the
snapshots in memory, as :mod:`.cluster_tables`."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import listed, number, text, time
from tallymark_audit.api.lists import Listing
from tallymark_audit.api.problems import Problem
from tallymark_dashboards.app.table_fields import PREFIX, known, table_router
from tallymark_dashboards.frame.requests import context_of
from tallymark_dashboards.snapshots.shapes import GroupState

router = table_router("groups")
_OF: Final = {"cluster": text("The cluster."), "group": text("The consumer group.")}
MEMBERS: Final = Listing(
    "group_members",
    {
        **_OF,
        "member": text("The id of the member."),
        "client": text("How the client calls itself."),
        "host": text("Where it connects from."),
        "instance": text("The id of a static member; empty: it is none."),
        "partitions": number("How many partitions it has."),
        "assigned": listed("These partitions, as topic and number."),
    },
    {"member": str},
)
COURSE: Final = Listing(
    "group_course",
    {
        **_OF,
        "at": time("When it was read,"),
        "lag": number("Messages in the log that were not read."),
        "behind_ms": known("The age of the first message that was not read (ms)."),
    },
    {"at": int},
)
Cluster = Annotated[params.Name, Query(description="The cluster.")]
Group = Annotated[params.Name, Query(description="The consumer group.")]


@lists.route(router, "/group-members", MEMBERS)
def members(request: Request, asked: params.Paged, cluster: Cluster, group: Group) -> Response:
    """The members of a group."""
    rows = [
        {
            "cluster": cluster,
            "group": group,
            "member": one.member_id,
            "client": one.client_id,
            "host": one.host,
            "instance": one.instance_id or "",
            "partitions": len(one.partitions),
            "assigned": [list(place) for place in one.partitions],
        }
        for one in _group(request, cluster, group).members
    ]
    return lists.answer_rows(request, MEMBERS, rows, asked)


@lists.route(router, "/group-course", COURSE)
def course(request: Request, asked: params.Paged, cluster: Cluster, group: Group) -> Response:
    """How far a group was behind over the last hours, the earliest first."""
    _group(request, cluster, group)
    rows = [
        {
            "cluster": cluster,
            "group": group,
            "at": one.at,
            "lag": one.lag,
            "behind_ms": one.delay_ms if one.delay_ms >= 0 else None,
        }
        for one in context_of(request).snapshots.course_of(cluster, group)
    ]
    return lists.answer_rows(request, COURSE, rows, asked)


def _group(request: Request, cluster: str, name: str) -> GroupState:
    state = context_of(request).snapshots.cluster(cluster)
    found = state.group(name) if state is not None else None
    if found is None:
        raise Problem(404, f"no group {name} is known on {cluster}", f"list them: {PREFIX}/groups")
    return found
