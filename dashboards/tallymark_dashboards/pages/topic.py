"""One topic on its whole way: what every hop was given and what arrived, when, how fast, and all of
its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tallymark_audit.judge.states import State
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import PRODUCER, family
from tallymark_audit.store.reading import neighbours, window_evidence
from tallymark_audit.store.reading import topic as reading
from tallymark_audit.store.reading.incidents import WhichIncidents, incident_count, incident_page
from tallymark_audit.store.reading.latency import latency_of, latency_series, lateness_series
from tallymark_audit.store.reading.series import buckets
from tallymark_audit.store.reading.sums import Sums, hop_sums, once
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.missing import Near, missing, nearest
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import PAGES, page
from tallymark_dashboards.view.charts.delivery import delivery
from tallymark_dashboards.view.charts.latency import latency
from tallymark_dashboards.view.clock import Clock, clock_of
from tallymark_dashboards.view.funnel import HopRow, funnel
from tallymark_dashboards.view.marks import mark
from tallymark_dashboards.view.overview_rows import judged_through
from tallymark_dashboards.view.reporters import reporter_rows
from tallymark_dashboards.view.topic_windows import by_cluster, delivered, partition_rows

WINDOWS: Final = 50
"""Windows on one page."""
SERVERS: Final = 50
PARTITIONS: Final = 100
INCIDENTS: Final = 10
BUCKETS: Final = 144
MOST_NAMES: Final = 20_000
HOUR: Final = 3_600_000
STATES: Final = tuple(str(state) for state in State)
BAD: Final = "bad"
"""A filter for all states that are wrong or unknown."""


@dataclass(frozen=True, slots=True)
class _Way:
    """The topic's name and its copies' names (``names``), the edges there are or were, and the sums
    of each hop in the range."""

    topic: str
    names: list[str]
    edges: list[Edge]
    sums: dict[tuple[str, str], Sums]

    @property
    def clusters(self) -> list[str]:
        """Where it may be counted."""
        ends = {end for edge in self.edges for end in (edge.upstream, edge.downstream, edge.home)}
        here = {edge.home for edge in self.edges}
        return sorted((ends & here) - {PRODUCER})


@page("/topic", name="topic", nav="Overview", live=True)
def topic(ask: Ask) -> Page:
    """The topic in the time range, on all hops or on one."""
    name, edge = ask.text("topic"), ask.text("edge")
    hops = neighbours.edges_known(ask.connection, name) if name else []
    if not hops:
        return _unknown(ask, name)
    if edge and edge not in hops:
        ask.notes.append(f"{name} was never judged on {edge[:80]}: all hops are shown")
        edge = ""
    way = _way(ask, name)
    rows = funnel(way.edges, way.sums, ask.context.deployment.audit.content_check)
    shown = {place: one for place, one in way.sums.items() if place[1] == name}
    whole = once({place[0]: one for place, one in shown.items()})
    values: dict[str, Any] = {
        "topic": name,
        "edge": edge,
        "hops": hops,
        "funnel": rows,
        "whole": whole,
        "names": way.names,
        "copies": [one for one in way.names if one != name],
        "through": reading.watermarks_of_topic(
            ask.connection, [(row.edge, row.topic) for row in rows]
        ),
        "has": frozenset(PAGES),
        **_charts(ask, way, edge),
        **_windows(ask, way, edge),
        **_around(ask, way),
    }
    bad = sum(one.bad for one in way.sums.values())
    return Page(name, "pages/topic.html", values, _tone(rows) if bad else "", bad)


def _tone(rows: list[HopRow]) -> Any:
    tones = {mark(state).tone for row in rows for state, count in row.sums.states.items() if count}
    return next((tone for tone in ("bad", "warn") if tone in tones), "")


def _unknown(ask: Ask, name: str) -> Page:
    names = nearest(name, neighbours.topics_named(ask.connection, "", MOST_NAMES))
    near = [Near(one, "topic", {"topic": one}) for one in names]
    hint = "A topic is known here when one of its windows has been judged."
    return missing("topic", name, near, hint)


def _way(ask: Ask, name: str) -> _Way:
    edges = reading.all_edges(ask.connection, ask.context.deployment)
    names = family(edges, name)
    found = hop_sums(ask.connection, names, ask.range.start, ask.range.end)
    sums = {(edge, one): some for one in names for edge, some in found.get(one, {}).items()}
    return _Way(name, names, edges, sums)


def _charts(ask: Ask, way: _Way, edge: str) -> dict[str, Any]:
    """Expected and arrived by event time, and how long it took."""
    length = ask.context.deployment.audit.window_ms
    clock = clock_of(ask.range.start, ask.range.end, length, BUCKETS)
    found = delivered(
        buckets(ask.connection, edge or None, way.topic, clock.start, clock.end, clock.step)
    )
    hops = [edge] if edge else [place[0] for place in way.sums if place[1] == way.topic]
    through = judged_through(ask.age, hops)
    hours = clock_of(ask.range.start, ask.range.end, HOUR, BUCKETS)
    lines = by_cluster(
        one
        for name in way.names
        for one in latency_series(
            ask.connection, way.clusters, name, hours.start, hours.end, hours.step
        )
    )
    return {
        "delivered": found,
        "step": clock.step,
        "span": {"from_": clock.start, "to": clock.end},
        "delivery": delivery(found, clock.start, clock.end, clock.step, through),
        "latencies": _latencies(lines, hours),
        "took": _took(ask, way, hours),
        "late": _late(ask, way),
    }


def _latencies(lines: dict[str, Any], hours: Clock) -> list[tuple[str, str]]:
    return [
        (name, latency(name, some, hours.start, hours.end, hours.step))
        for name, some in sorted(lines.items())
    ]


def _took(ask: Ask, way: _Way, hours: Clock) -> list[tuple[str, Any]]:
    """Of the whole range: cluster, and its percentiles."""
    return [
        (cluster, one)
        for name in way.names
        for cluster, one in sorted(
            latency_of(ask.connection, way.clusters, name, hours.start, hours.end).items()
        )
    ]


def _late(ask: Ask, way: _Way) -> list[Any]:
    """How late records came, by counter and day, from which the settle time is learned."""
    counters = [*way.clusters, *(edge.name for edge in way.edges if edge.kind == "consumer")]
    return [
        one
        for counter in counters
        for one in lateness_series(
            ask.connection, counter, way.topic, ask.range.start, ask.range.end
        )[-7:]
    ]


def _windows(ask: Ask, way: _Way, edge: str) -> dict[str, Any]:
    """A page of the windows, filtered by state, edge and range."""
    state = ask.one_of("state", ("", BAD, *STATES), "")
    states = [one for one in STATES if mark(one).tone in ("bad", "warn")] if state == BAD else []
    states = states or ([state] if state else [])
    mine = [one for place, one in way.sums.items() if not edge or place[0] == edge]
    count = reading.number_of_windows(mine, states)
    paging = ask.paging(count, WINDOWS)
    edges = [edge] if edge else sorted({place[0] for place in way.sums})
    which = reading.WhichWindows(way.names, ask.range.start, ask.range.end, edges, states)
    rows = reading.windows_of_topic(ask.connection, which, paging.skip, WINDOWS)
    return {
        "windows": [shown_verdict(row) for row in rows],
        "count": count,
        "at": paging.number,
        "pages": paging.pages,
        "state": state,
        "chosen": states,
        "states": STATES,
    }


def _around(ask: Ask, way: _Way) -> dict[str, Any]:
    """Servers, partitions, groups, incidents."""
    audit = ask.context.deployment.audit
    servers = window_evidence.reporters_of_topic(ask.connection, way.clusters, way.topic, SERVERS)
    counts = reading.partitions_of_topic(ask.connection, way.names)
    snapshots = ask.context.snapshots
    leaders = {
        (cluster.name, name, one.partition): (one.leader, one.under_replicated)
        for cluster in snapshots.clusters
        for name in way.names
        if name in cluster.topics.value
        for one in cluster.topics.value[name].partitions
    }
    which = WhichIncidents(topic=way.topic, start=ask.range.start, end=ask.range.end)
    partitions = partition_rows(counts, leaders, ask.now - audit.silence_ms)
    return {
        "servers": reporter_rows(servers.rows, ask.now - audit.silence_ms),
        "servers_left_out": servers.left_out,
        "partitions": partitions[:PARTITIONS],
        "partitions_left_out": max(0, len(partitions) - PARTITIONS),
        "groups": [one for name in way.names for one in snapshots.lag_of(name)],
        "incidents": incident_page(ask.connection, which, limit=INCIDENTS),
        "incident_count": incident_count(ask.connection, which),
    }
