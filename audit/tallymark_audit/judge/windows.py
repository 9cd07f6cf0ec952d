"""Judge many windows of one topic on one edge, from whatever supplies the facts. Pure.

::

    FactSource ──► counters, how far it was carried ──► damage
        │                        │
        └──► both sides of each window, put paired each other ──► judge

The decision on one window is :func:`tallymark_audit.judge.verdicts.judge`. Here its facts are put
together, the same way for the collector and for Spark: only what they counted differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.deployment import AuditSettings
from tallymark_audit.judge.assemble import consumer_facts
from tallymark_audit.judge.copy_progress import (
    Passed,
    deletion_gaps,
    in_flight,
    newest,
    owing,
    reasons_of,
    standing_still,
    unreported,
    with_deletions,
)
from tallymark_audit.judge.damage import Damage, Damaged
from tallymark_audit.judge.fact_source import Carried, Counted, CounterTimes, FactSource
from tallymark_audit.judge.hops import ClusterTopic, Hop, Known, Sides, paired
from tallymark_audit.judge.loaded import Loaded, current_tables, lake_facts
from tallymark_audit.judge.processed import Processed
from tallymark_audit.judge.settle_time import counter_of, learned_settle_ms
from tallymark_audit.judge.verdicts import Clock, ReporterFacts, Verdict, judge, undecidable
from tallymark_audit.model.absurd import AbsurdError
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import collision
from tallymark_audit.model.sides import CellFacts
from tallymark_audit.model.time_format import utc

NOTHING_CARRIED: Final = Carried()


def judge_windows(
    source: FactSource,
    hop: Hop,
    topic: str,
    windows: Sequence[int],
    settings: AuditSettings,
    now_ms: int,
    *,
    skip_empty: bool = False,
) -> list[Verdict]:
    """The verdicts of these windows (starts, ms) of one topic on one edge, as of now.
    ``skip_empty``: leave out windows of which neither side has a cell."""
    edge, known = hop.edge, source.known(hop)
    counters = source.counters(hop, topic, known)
    carriers = _carriers(source, edge, topic)
    carried = _carried(source, edge, topic, carriers)
    passed = passed_by(edge, carried, settings.silence_ms)
    damage = damage_of(source, hop, topic, known, carried, passed)
    sides = _BothSides(source, hop, topic, windows, known, counters, carried, passed)
    cells = sides.of(carriers)
    windows = [at for at in windows if cells[at] or not skip_empty]
    why = _collides(hop, topic, known)
    if why:
        return [undecidable(edge, topic, at, cells[at], why) for at in windows]
    reporters = carriers if edge.kind != "producer" else _producers(source, edge, topic, cells)
    changed = _changes(source, hop, topic, windows, known)
    settle_ms = learned_settle_ms(settings, source.lateness(*counter_of(edge, topic)))
    hidden = _hidden(source, edge, topic, windows)
    _check_times(source.latest, counters.downstream, counters.upstream, *changed.values())

    def clock(window: int) -> Clock:
        return Clock(
            now=now_ms,
            window_ms=settings.window_ms,
            settle_ms=settle_ms,
            silence_ms=settings.silence_ms,
            downstream_through=counters.downstream,
            upstream_through=counters.upstream,
            changed=changed.get(window, 0),
            waits=counters.waits,
            hanging_ms=settings.hanging_transaction_ms,
        )

    return [
        judge(edge, topic, at, cells[at], reporters, clock(at), damage, hidden.get(at, 0))
        for at in windows
    ]


def _carriers(source: FactSource, edge: Edge, topic: str) -> list[ReporterFacts]:
    """The reporters that carry messages over the edge and report how far they have come."""
    if edge.kind == "lake":
        return current_tables(source.members(edge, topic))
    if edge.kind == "consumer":
        return source.members(edge, topic)
    mirror = source.mirror(edge) if edge.kind == "mirror" else None
    return [mirror] if mirror else []


def _carried(
    source: FactSource, edge: Edge, topic: str, carriers: Iterable[ReporterFacts]
) -> Carried:
    if edge.kind == "producer":
        return NOTHING_CARRIED
    return source.carried(edge, topic, [one.reporter for one in carriers])


def passed_by(edge: Edge, carried: Carried, patience_ms: int) -> Mapping[int, Passed]:
    """How far the edge's mirror or group has come in each partition upstream. It is done with one
    that was deleted, after ``patience_ms``.

    Of a group or a load it does not matter since when: what it has processed is in the same
    reports."""
    if edge.kind == "producer":
        return {}
    passed = newest(carried.words) if carried.watched is None else carried.watched
    if edge.reported:
        passed = {partition: Passed(at.offset) for partition, at in passed.items()}
    return with_deletions(passed, carried.deleted, carried.detached, patience_ms)


def damage_of(
    source: FactSource,
    hop: Hop,
    topic: str,
    known: Known,
    carried: Carried,
    passed: Mapping[int, Passed],
) -> Damage:
    """The logs on both sides of the hop that cannot be read to their end, and those upstream at
    which its mirror reports that it stands still."""
    edge = hop.edge
    down, up = (
        tuple(one for side in sides for one in source.damaged(*side))
        for sides in hop.sides(topic, known)
    )
    still = standing_still(edge, topic, carried.stops, passed, carried.began)
    return Damage(down, up, tuple(_spread(source, one) for one in still))


def _spread(source: FactSource, one: Damaged) -> Damaged:
    return one._replace(spread=source.is_spread(one.cluster, one.topic))


@dataclass(frozen=True, slots=True)
class _BothSides:
    """The cells of both sides of an edge, by window."""

    source: FactSource
    hop: Hop
    topic: str
    windows: Sequence[int]
    known: Known
    counters: CounterTimes
    carried: Carried
    passed: Mapping[int, Passed]

    def of(self, carriers: Sequence[ReporterFacts]) -> dict[int, list[CellFacts]]:
        """As the kind of the edge wants it."""
        if self.hop.edge.kind == "consumer":
            return self.of_group(carriers)
        return self.of_lake() if self.hop.edge.kind == "lake" else self.of_clusters()

    def of_clusters(self) -> dict[int, list[CellFacts]]:
        """Of a producer's or a mirror's edge."""
        edge, there = self.hop.edge, self.hop.edge.downstream_topic(self.topic)
        downstream = self.source.counted(edge.downstream, there, self.windows)
        claims = self.source.claimed(edge.downstream, there, self.windows)
        above = self._above()
        mine = above.get((edge.upstream, self.topic), Counted({}))
        homes = self._homes([downstream, mine]) if above else {}
        gaps = [*self.carried.gaps, *deletion_gaps(self.carried.deleted)]
        return {
            at: paired(
                self.hop,
                self.topic,
                Sides(
                    downstream.cells.get(at, {}),
                    claims.get(at, {}),
                    {place: counted.cells.get(at, {}) for place, counted in above.items()},
                    mine.parts.get(at, {}),
                    homes,
                    self.passed,
                    self.counters.carried,
                    gaps,
                ),
            )
            for at in self.windows
        }

    def of_group(self, members: Iterable[ReporterFacts]) -> dict[int, list[CellFacts]]:
        """Of a consumer edge."""
        edge, topic = self.hop.edge, self.topic
        held = self.source.counted(edge.upstream, topic, self.windows)
        done = Processed.of(self.source.processed(edge, topic, self.windows))
        owed = owing(self.carried.words, members)
        return {
            at: consumer_facts(
                held.cells.get(at, {}),
                done.cells.get(at, {}),
                done.filtered.get(at, {}),
                in_flight(held.parts.get(at, {}), self.passed, self.counters.carried),
                done.doubted.get(at, {}),
                unreported(held.parts.get(at, {}), owed),
            )
            for at in self.windows
        }

    def of_lake(self) -> dict[int, list[CellFacts]]:
        """Of the edge into the lake."""
        edge, topic = self.hop.edge, self.topic
        held = self.source.counted(edge.upstream, topic, self.windows)
        done = Loaded.of(self.source.processed(edge, topic, self.windows))
        gaps = [*self.carried.gaps, *deletion_gaps(self.carried.deleted)]
        return {
            at: lake_facts(
                held.cells.get(at, {}),
                done,
                at,
                in_flight(held.parts.get(at, {}), self.passed, self.counters.carried),
                reasons_of(held.parts.get(at, {}), gaps),
            )
            for at in self.windows
        }

    def _above(self) -> dict[ClusterTopic, Counted]:
        """What is counted of the topic, by whatever name, in every cluster mirrored in."""
        return {
            (up, name): self.source.counted(up, name, self.windows)
            for up, names in self.hop.upstreams(self.topic, self.known).items()
            for name in names
        }

    def _homes(self, sides: Iterable[Counted]) -> Mapping[str, str]:
        found = {key.instance for side in sides for cells in side.cells.values() for key in cells}
        return self.source.homes(self.hop.may_be_home(), found - {""})


def _collides(hop: Hop, topic: str, known: Known) -> str:
    """Why the topic cannot be distinguished from another one downstream of a mirror; ``""`` if it
    can."""
    if hop.edge.kind != "mirror":
        return ""
    return collision(hop.edge, topic, known.get(hop.edge.upstream, ())) or ""


def _producers(
    source: FactSource, edge: Edge, topic: str, cells: Mapping[int, list[CellFacts]]
) -> list[ReporterFacts]:
    instances = {one.key.instance for some in cells.values() for one in some if one.key.stamped}
    return source.producers(edge, topic, instances)


def _changes(
    source: FactSource, hop: Hop, topic: str, windows: Sequence[int], known: Known
) -> dict[int, int]:
    latest: dict[int, int] = {}
    for cluster, name in hop.places(topic, known):
        for window, at in source.changes(cluster, name, windows).items():
            latest[window] = max(latest.get(window, 0), at)
    return latest


def _hidden(
    source: FactSource, edge: Edge, topic: str, windows: Sequence[int]
) -> Mapping[int, int]:
    """By window, the records downstream that were counted, but whose sequences are not known."""
    if edge.reported:
        return {}
    return source.hidden(edge.downstream, edge.downstream_topic(topic), windows)


def _check_times(latest: int, *times: int) -> None:
    """AbsurdError: what was noted for a time after ``latest`` (ms) was not. To believe that a
    counter has counted until then would make all that is still to come a loss."""
    wrong = max(times)
    if wrong > latest:
        raise AbsurdError(f"the store says that it was counted or changed at {utc(wrong)}")
