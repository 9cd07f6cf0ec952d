"""The facts about windows of an edge that are in the store: the collector's source for
:func:`tallymark_audit.judge.windows.judge_windows`, read for many windows at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection

from tallymark.deployment import AuditSettings
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.judge.fact_source import Carried, Counted, CounterTimes
from tallymark_audit.judge.hops import ClusterTopic, Hop, Known
from tallymark_audit.judge.loaded import current_tables
from tallymark_audit.judge.settle_time import counter_of, learned_settle_ms, learned_since
from tallymark_audit.judge.verdicts import ReporterFacts
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.sides import Claim
from tallymark_audit.model.sketches import Sketch
from tallymark_audit.store.counted import carried, damage, facts, groups
from tallymark_audit.store.counted.deleted import began_anew, deletions
from tallymark_audit.store.counted.open_transactions import open_transactions
from tallymark_audit.store.counted.openings import hidden_records


class StoreFacts:
    """A :class:`~tallymark_audit.judge.fact_source.FactSource` over one snapshot of the store, as
    of ``now_ms``."""

    def __init__(self, connection: Connection, settings: AuditSettings, now_ms: int) -> None:
        self._connection = connection
        self._settings = settings
        self._now = now_ms

    @property
    def latest(self) -> int:
        return self._now + self._settings.skew_ms

    def known(self, hop: Hop) -> Known:
        return topics_known(self._connection, hop)

    def counted(self, cluster: str, topic: str, windows: Sequence[int]) -> Counted:
        return facts.counted(self._connection, cluster, topic, windows)

    def claimed(
        self, cluster: str, topic: str, windows: Sequence[int]
    ) -> Mapping[int, dict[CellKey, Claim]]:
        return facts.claimed(self._connection, cluster, topic, windows)

    def processed(self, edge: Edge, topic: str, windows: Sequence[int]) -> Iterable[Claim]:
        if edge.kind == "lake":
            tables = current_tables(self.members(edge, topic))
            members = frozenset(one.reporter for one in tables)
        else:
            members = groups.members_named(self._connection, edge.upstream, edge.kind, edge.group)
        return facts.processed(self._connection, edge.upstream, members, topic, windows)

    def homes(self, clusters: Collection[str], instances: Collection[str]) -> dict[str, str]:
        return facts.homes(self._connection, clusters, instances)

    def mirror(self, edge: Edge) -> ReporterFacts | None:
        return carried.mirror_reporter(self._connection, edge)

    def members(self, edge: Edge, topic: str) -> list[ReporterFacts]:
        return groups.members_of(self._connection, edge, topic)

    def producers(self, edge: Edge, topic: str, instances: Collection[str]) -> list[ReporterFacts]:
        return facts.reporters_of(self._connection, edge.downstream, topic, instances)

    def carried(self, edge: Edge, topic: str, carriers: Sequence[str]) -> Carried:
        deleted, detached = deletions(self._connection, edge.upstream, topic)
        if edge.kind == "consumer":
            words = carried.words_of(self._connection, edge.upstream, carriers, topic)
            return Carried(words, deleted=deleted, detached=detached)
        if edge.kind == "lake":
            words = carried.words_of_tables(self._connection, edge.upstream, carriers, topic)
            gaps = carried.gaps_by(self._connection, edge.upstream, carriers, topic)
            return Carried(words, gaps=gaps, deleted=deleted, detached=detached)
        words = carried.words_of_mirror(self._connection, edge, topic) if carriers else []
        stops = carried.stops_of(self._connection, edge, topic)
        began = began_anew(self._connection, edge.upstream).get(topic, 0) if stops else 0
        return Carried(
            words,
            None if carriers else carried.mirrored_through(self._connection, edge, topic),
            carried.gaps_of(self._connection, edge, topic),
            stops,
            deleted,
            detached,
            began,
        )

    def damaged(self, cluster: str, topic: str) -> list[Damaged]:
        found = damage.damaged(self._connection, cluster, topic)
        return [one._replace(spread=self.is_spread(cluster, one.topic)) for one in found]

    def is_spread(self, cluster: str, topic: str) -> bool:
        return topic == AUDIT_TOPIC or damage.is_spread(self._connection, cluster, topic)

    def counters(self, hop: Hop, topic: str, known: Known) -> CounterTimes:
        down, up = counters_through(self._connection, hop, topic, known, undamaged=True)
        places = {side for sides in hop.sides(topic, known) for side in sides}
        waits = [one for at in sorted(places) for one in open_transactions(self._connection, *at)]
        return CounterTimes(down, up, down, tuple(waits))

    def changes(self, cluster: str, topic: str, windows: Sequence[int]) -> dict[int, int]:
        return facts.changes(self._connection, [cluster], topic, windows)

    def lateness(self, counter: str, topic: str) -> Sketch:
        since = learned_since(self._now)
        return facts.lateness_of(self._connection, counter, topic, since)

    def hidden(self, cluster: str, topic: str, windows: Sequence[int]) -> dict[int, int]:
        window_ms = self._settings.window_ms
        return hidden_records(self._connection, cluster, topic, windows, window_ms)


def topics_known(connection: Connection, hop: Hop) -> dict[str, frozenset[str]]:
    """The topics that the collectors of the hop's clusters know."""
    return {cluster: facts.topics_on(connection, cluster) for cluster in set(hop.clusters())}


def counters_through(
    connection: Connection, hop: Hop, topic: str, known: Known, *, undamaged: bool = False
) -> tuple[int, int]:
    """Up to when (ms) the counters downstream and upstream of the hop have counted; ``undamaged``:
    without partitions that cannot be read."""
    down, up = hop.sides(topic, known)

    def through(sides: Iterable[ClusterTopic]) -> int:
        return min(facts.counted_through(connection, *side, undamaged) for side in sides)

    return through(down), through(up)


def settle_ms(
    connection: Connection, hop: Hop, topic: str, settings: AuditSettings, now_ms: int
) -> int:
    """The settle time of a topic on an edge, learned from what its counter downstream saw."""
    counter, there = counter_of(hop.edge, topic)
    late = facts.lateness_of(connection, counter, there, learned_since(now_ms))
    return learned_settle_ms(settings, late)


class SettleTimes:
    """:func:`settle_ms` of every topic on an edge, with one question."""

    def __init__(
        self, connection: Connection, hop: Hop, settings: AuditSettings, now_ms: int
    ) -> None:
        self._hop, self._settings = hop, settings
        counter, _ = counter_of(hop.edge, "")
        self._late = facts.lateness_by_topic(connection, counter, learned_since(now_ms))

    def of(self, topic: str) -> int:
        """The settle time, ms."""
        _, there = counter_of(self._hop.edge, topic)
        return learned_settle_ms(self._settings, self._late.get(there, {}))
