"""Sums of a period: of everything, of each topic, of each edge, of each hop of a topic."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from sqlalchemy import Connection

from tallymark_audit.api import lists, params
from tallymark_audit.api.fields import Field, Fields, number, row_schema, text, time
from tallymark_audit.api.lists import Listing, Page
from tallymark_audit.api.periods import SUMS, sums_row, within
from tallymark_audit.api.problems import Answer, AuditRoute
from tallymark_audit.api.state import api_of
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import derive_edges, family
from tallymark_audit.store.reading.alarms.backlogs import HopFacts, hop_facts
from tallymark_audit.store.reading.pulse import pulse as pulse_of
from tallymark_audit.store.reading.sums import hop_sums
from tallymark_audit.store.reading.topic import all_edges, watermarks_of_topic
from tallymark_audit.store.reading.worst import TopicSums, worst
from tallymark_audit.store.schema.rows import Row

router = APIRouter(route_class=AuditRoute, default_response_class=Answer)
TOPIC: Final[Fields] = {
    "topic": text("The topic."),
    **SUMS,
    "through": time("The earliest of its watermarks (-1: none),"),
    "hops": Field("list", "The same of each edge by itself."),
}
TOPICS = Listing("topics", TOPIC, {"skip": int})
EDGE: Final[Fields] = {
    "edge": text("The edge, as in dc1-to-aggregate."),
    "kind": text("What it leads to, or by: producer, mirror, consumer, lake."),
    "upstream": text("Where messages come from."),
    "downstream": text("Where they arrive."),
    **SUMS,
    "through": time(
        "Every topic is complete through this time (0: not all are, or none is known),"
    ),
    "topics": number("Topics that have a watermark."),
    "behind": Field("number", "Messages not copied yet; null: no mirror reports.", may_lack=True),
}
EDGES = Listing("edges", EDGE, {"edge": str})
HOP: Final[Fields] = {
    "edge": text("The hop, as in dc1-to-aggregate."),
    "topic": text("What the topic is called upstream of it: a mirror may give copies a name."),
    **SUMS,
    "through": time("All stamped before is accounted for (-1: no watermark yet),"),
}
HOPS = Listing("hops", HOP, {"edge": str, "topic": str})


@lists.register(
    router,
    "/pulse",
    row_schema(
        {
            **SUMS,
            "start": time("The period: from,"),
            "end": time("And up to, excluded,"),
            "through": time("The earliest watermark (-1: none),"),
            "through_edge": text("The edge that has this watermark."),
            "through_topic": text("The topic that has it."),
            "topics": number("How many topics there are."),
            "hops": Field("object", "The same numbers of each edge by itself."),
        }
    ),
    csv=False,
)
def pulse(request: Request, period: params.Windows, topic: params.TopicName = None) -> Response:
    """The numbers of a period, of all topics or of one: each message counts once, claimed at the
    first hop of its topic, and missing, duplicated or unclaimed at the hop where that happened."""
    start, end = within(period)
    with api_of(request).store.read() as connection:
        found = pulse_of(connection, start, end, topic)
    rest = {
        name: getattr(found, name)
        for name in ("start", "end", "through", "through_edge", "through_topic", "topics")
    }
    hops = {edge: sums_row(sums) for edge, sums in found.hops.items()}
    return Answer({**sums_row(found.sums), **rest, "hops": hops})


@lists.route(router, "/topics", TOPICS)
def topics(
    request: Request,
    asked: params.Paged,
    period: params.Windows,
    find: params.Find = "",
) -> Response:
    """The topics, the worst of the period (else: of the last day) first, then the others by name.
    The order may change from page to page."""
    start, end = within(period)

    def read(connection: Connection, after: Any, most: int) -> Page:
        skip = min(max(0, after[0]), params.MOST_SKIPPED) if after else 0
        found = worst(connection, start, end, most, skip, find)
        rows = [_topic_row(one) for one in found.rows]
        more = skip + len(rows)
        return Page(rows, [more] if rows and more < found.topics else None)

    return lists.answer_page(request, TOPICS, read, asked)


@lists.route(router, "/edges", EDGES)
def edges(request: Request, asked: params.Paged, period: params.Windows) -> Response:
    """The edges between clusters, and those to consumer groups and to the lake: sums of the period
    (else: of the last day), how far all topics are complete (ms), what is not copied yet."""
    start, end = within(period)
    named = {one.name: one for one in derive_edges(api_of(request).deployment)}

    def read(connection: Connection, after: Any, most: int) -> list[Row]:
        names = sorted(name for name in named if after is None or name > after[0])[:most]
        found = hop_facts(connection, [named[name] for name in names], start, end)
        return [_edge_row(named[name], found[name]) for name in names]

    return lists.answer(request, EDGES, read, asked)


@lists.route(router, "/hops", HOPS)
def hops(
    request: Request,
    topic: Annotated[params.Name, Query(description="The topic, as producers call it.")],
    asked: params.Paged,
    period: params.Windows,
) -> Response:
    """The way of a topic and of its copies, by hop: sums of the period (else: of the last day), and
    how far each is complete."""
    start, end = within(period)
    api = api_of(request)
    with api.store.read() as connection:
        names = family(all_edges(connection, api.deployment), topic)
        found = hop_sums(connection, names, start, end)
        places = [(edge, name) for name, some in found.items() for edge in some]
        through = watermarks_of_topic(connection, places)
    rows = [
        {"edge": edge, "topic": name, **sums_row(found[name][edge])}
        | {"through": through.get((edge, name), -1)}
        for edge, name in places
    ]
    return lists.answer_rows(request, HOPS, rows, asked)


def _topic_row(one: TopicSums) -> Row:
    hops = [
        {"edge": hop.edge, "through": hop.through, "horizon": hop.horizon, **sums_row(hop.sums)}
        for hop in one.hops
    ]
    return {"topic": one.topic, **sums_row(one.sums), "through": one.through, "hops": hops}


def _edge_row(edge: Edge, facts: HopFacts) -> Row:
    return {
        "edge": edge.name,
        "kind": edge.kind,
        "upstream": edge.upstream,
        "downstream": edge.downstream,
        **sums_row(facts.sums),
        "through": facts.through,
        "topics": facts.topics,
        "behind": facts.behind,
    }
