"""Counts of a topic by tier, in the form that other audit clients read.

Apache Gobblin's ``AuditCountHttpClient`` asks ``GET <base>?topic=..&start=..&end=..`` (ms) and
reads ``{"totalsPerTier": {"<tier>": <integer>, ...}}``; it compares tiers that its settings name,
and a tier that is absent makes it try again later. So a tier is absent until all of the period has
been counted in it: half a count would look as if everything had arrived.

Tiers: ``producer`` (claimed, on all clusters), ``producer-to-<cluster>``, ``<cluster>`` (counted
there), ``<cluster>-to-group:<group>`` (processed) and ``<cluster>-to-lake`` (loaded). Each message
counts once, however many copies there are, so copies cannot hide missing messages.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from sqlalchemy import Connection, select

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import Field, row_schema, text, time
from tallymark_audit.api.problems import Answer, AuditRoute, Problem, away
from tallymark_audit.api.state import api_of
from tallymark_audit.model.cells import LAKE
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.store.counted import facts
from tallymark_audit.store.counted.totals import DAY, totals_of
from tallymark_audit.store.schema.tables import progress
from tallymark_audit.store.schema.tables import watermarks as marks

LONGEST_MS: Final = 366 * DAY
INTO_LAKE: Final = f"-to-{LAKE}"
router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
SCHEMA: Final = row_schema(
    {
        "totalsPerTier": Field("object", "Messages by tier."),
        "topic": text("The topic."),
        "start": time("The period: from,"),
        "end": time("And up to, excluded,"),
    }
)


@lists.register(router, "/totals", SCHEMA, csv=False)
def totals(
    request: Request,
    topic: Annotated[params.Name, Query(description="The topic.")],
    start: Annotated[params.Moment, Query(description="The period's start, at a window's start.")],
    end: Annotated[params.Moment, Query(description="The period's end, excluded; likewise.")],
) -> Answer:
    """Messages by tier, of the windows in a period. A tier in which not all of the period has been
    counted yet is left out; 503 while there is none at all. Apache Gobblin reads this."""
    api = api_of(request)
    window_ms = api.deployment.audit.window_ms
    _check(start, end, window_ms)
    with api.store.read() as connection:
        whole = whole_tiers(connection, topic, end)
        if whole is None:
            raise Problem(404, f"no topic {topic} is known", "see /api/v1/audit/overview")
        counts = dict.fromkeys(whole, 0)
        for one in totals_of(connection, topic, start, end):
            for tier in tiers_of(one.cluster, one.tier):
                if tier in counts:
                    counts[tier] += one.messages
    if not counts:
        raise away(f"{topic} has not been counted through {end} yet")
    return Answer({"totalsPerTier": counts, "topic": topic, "start": start, "end": end})


def whole_tiers(connection: Connection, topic: str, end: int) -> list[str] | None:
    """The tiers in which the topic has been counted up to ``end`` (ms), sorted; None if the topic
    is not known."""
    query = select(progress.c.cluster).where(progress.c.topic == topic).distinct()
    clusters = [row.cluster for row in connection.execute(query)]
    query = select(marks.c.edge, marks.c.horizon, marks.c.through).where(marks.c.topic == topic)
    # What is not loaded is not absent: into the lake only what was judged is the whole.
    known = {
        row.edge: row.through if row.edge.endswith(INTO_LAKE) else row.horizon
        for row in connection.execute(query)
    }
    if not clusters and not known:
        return None
    found = [
        cluster for cluster in clusters if facts.counted_through(connection, cluster, topic) >= end
    ]
    reported = {edge for edge, horizon in known.items() if horizon >= end}
    claimed = {edge for edge in known if edge.startswith(f"{PRODUCER}-to-")}
    found += [edge for edge in reported if edge in claimed or "-to-group:" in edge]
    found += [edge for edge in reported if edge.endswith(INTO_LAKE)]
    if claimed and claimed <= reported:
        found.append(PRODUCER)
    return sorted(found)


def tiers_of(cluster: str, tier: str) -> tuple[str, ...]:
    """The names of a total's tiers, see above."""
    if tier == "cluster":
        return (cluster,)
    if tier == PRODUCER:
        return PRODUCER, f"{PRODUCER}-to-{cluster}"
    return (f"{cluster}-to-{tier}",)


def _check(start: int, end: int, window_ms: int) -> None:
    if not start < end <= start + LONGEST_MS:
        raise Problem(422, "end has to be after start, by a year at most", "mend the period")
    if start % window_ms or end % window_ms:
        raise Problem(
            422,
            f"start and end have to lie between windows, which are {window_ms} ms long",
            "give whole minutes or hours",
        )
