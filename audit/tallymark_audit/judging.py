"""Judge windows of an edge from what the store holds. The decision itself is
:func:`tallymark_audit.verdicts.judge`; here its facts are gathered, many windows at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from tallymark.deployment import AuditSettings
from tallymark_audit.assemble import mirror_facts, producer_facts
from tallymark_audit.cells import Edge
from tallymark_audit.edges import AUDIT_TOPIC, passes
from tallymark_audit.sides import CellFacts
from tallymark_audit.store import facts
from tallymark_audit.verdicts import Clock, ReporterFacts, Verdict, judge


@dataclass(frozen=True, slots=True)
class Hop:
    """An edge with its surroundings: the other edges that end where it ends."""

    edge: Edge
    siblings: tuple[Edge, ...]

    def upstreams(self, topic: str) -> tuple[str, ...]:
        """The clusters from which the topic is mirrored into the edge's downstream."""
        return tuple(
            edge.upstream for edge in self.siblings if edge.kind == "mirror" and passes(edge, topic)
        )

    def clusters(self, topic: str) -> tuple[str, ...]:
        """The clusters whose counts and claims can change a verdict on this edge."""
        if self.edge.kind == "mirror":
            return (self.edge.downstream, self.edge.upstream)
        return (self.edge.downstream, *self.upstreams(topic))


def hops_into(edges: Sequence[Edge], cluster: str) -> tuple[Hop, ...]:
    """The hops that end at the cluster."""
    into = tuple(edge for edge in edges if edge.downstream == cluster)
    return tuple(Hop(edge, into) for edge in into)


def settle_ms(settings: AuditSettings) -> int:
    """How long after its end a window is left to settle. The place for the learned 99.9 % quantile
    of lateness, within the same bounds; until there is one, the lower bound."""
    return min(settings.settle_min_ms, settings.settle_max_ms)


def judge_windows(
    connection: Connection,
    hop: Hop,
    topic: str,
    windows: Sequence[int],
    settings: AuditSettings,
    now_ms: int,
) -> list[Verdict]:
    """The verdicts of these windows (starts, ms) of one topic on one edge, as of now."""
    cells = _cells(connection, hop, topic, windows)
    reporters = _reporters(connection, hop, topic, cells)
    changed = facts.changes(connection, hop.clusters(topic), topic, windows)
    downstream, upstream = counters_through(connection, hop, topic)
    return [
        judge(
            hop.edge,
            topic,
            window,
            cells[window],
            reporters,
            Clock(
                now=now_ms,
                window_ms=settings.window_ms,
                settle_ms=settle_ms(settings),
                silence_ms=settings.silence_ms,
                downstream_through=downstream,
                upstream_through=upstream,
                changed=changed.get(window, 0),
            ),
        )
        for window in windows
    ]


def counters_through(connection: Connection, hop: Hop, topic: str) -> tuple[int, int]:
    """Up to when (ms) the counters downstream and upstream of the hop have counted."""
    edge = hop.edge
    downstream = facts.counted_through(connection, edge.downstream, topic)
    if edge.kind == "mirror":
        return downstream, facts.counted_through(connection, edge.upstream, topic)
    # Where mirrors end too, "nobody claimed it" also needs every upstream to have been counted.
    sources = [(edge.downstream, AUDIT_TOPIC), *((up, topic) for up in hop.upstreams(topic))]
    return downstream, min(facts.counted_through(connection, *source) for source in sources)


def _cells(
    connection: Connection, hop: Hop, topic: str, windows: Sequence[int]
) -> Mapping[int, list[CellFacts]]:
    edge, upstreams = hop.edge, hop.upstreams(topic)
    downstream = facts.observed(connection, edge.downstream, topic, windows)
    claims = facts.claimed(connection, edge.downstream, topic, windows)
    counted = {up: facts.observed(connection, up, topic, windows) for up in upstreams}
    instances = {key.instance for cells in downstream.values() for key in cells if key.stamped}
    homes = facts.homes(connection, upstreams, instances) if upstreams else {}
    passed = (
        facts.mirrored_through(connection, edge.upstream, edge.downstream, topic)
        if edge.kind == "mirror"
        else {}
    )
    found: dict[int, list[CellFacts]] = {}
    for window in windows:
        seen, said = downstream.get(window, {}), claims.get(window, {})
        ups = {up: counted[up].get(window, {}) for up in upstreams}
        if edge.kind == "producer":
            found[window] = producer_facts(said, seen, ups, homes)
        else:
            found[window] = mirror_facts(edge, ups, seen, homes, said, passed)
    return found


def _reporters(
    connection: Connection, hop: Hop, topic: str, cells: Mapping[int, list[CellFacts]]
) -> list[ReporterFacts]:
    if hop.edge.kind == "mirror":
        return []
    instances = {one.key.instance for some in cells.values() for one in some if one.key.stamped}
    return facts.reporters_of(connection, hop.edge.downstream, topic, instances)
