"""Judge windows of an edge from what the store holds. The decision itself is
:func:`tallymark_audit.judge.verdicts.judge`; here its facts are gathered, many windows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from tallymark.deployment import AuditSettings
from tallymark_audit.judge.assemble import consumer_facts
from tallymark_audit.judge.damage import Damage, Damaged
from tallymark_audit.judge.hops import Hop, Known, Place, Sides, beside
from tallymark_audit.judge.passing import Passed, in_flight, owing, standing_still, unreported
from tallymark_audit.judge.verdicts import Clock, ReporterFacts, Verdict, judge, undecidable
from tallymark_audit.model import sketches
from tallymark_audit.model.absurd import AbsurdError
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import AUDIT_TOPIC, collision
from tallymark_audit.model.sides import CellFacts
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import carried, facts
from tallymark_audit.store.damage import damaged, is_spread
from tallymark_audit.store.deleted import began_anew, deletion_gaps, with_deletions
from tallymark_audit.store.openings import hidden_records

DAY_MS: Final = 86_400_000
LEARNED_DAYS: Final = 7
"""Lateness is learned from today and so many days before."""
LEARNED_SHARE: Final = 0.999
ENOUGH: Final = 1000
"""Records below which a share of one in a thousand says nothing."""


def learned_settle_ms(settings: AuditSettings, late: Mapping[int, int]) -> int:
    """How long after its end a window is left to settle: the 99.9 % quantile of how late records
    came (a sketch of ms), within the settings' bounds; with few records the lower bound."""
    low = min(settings.settle_min_ms, settings.settle_max_ms)
    if sum(late.values()) < ENOUGH:
        return low
    learned = sketches.quantile(late, LEARNED_SHARE) or 0.0
    return min(max(low, round(learned)), settings.settle_max_ms)


def settle_ms(
    connection: Connection, hop: Hop, topic: str, settings: AuditSettings, now_ms: int
) -> int:
    """The settle time of a topic on an edge, learned from what its counter downstream saw."""
    there = hop.edge.downstream_topic(topic)
    late = facts.lateness_of(connection, _counter(hop), there, _learned_since(now_ms))
    return learned_settle_ms(settings, late)


class SettleTimes:
    """:func:`settle_ms` of every topic on an edge, with one question."""

    def __init__(
        self, connection: Connection, hop: Hop, settings: AuditSettings, now_ms: int
    ) -> None:
        self._hop, self._settings = hop, settings
        since = _learned_since(now_ms)
        self._late = facts.lateness_by_topic(connection, _counter(hop), since)

    def of(self, topic: str) -> int:
        """The settle time, ms."""
        there = self._hop.edge.downstream_topic(topic)
        return learned_settle_ms(self._settings, self._late.get(there, {}))


def _counter(hop: Hop) -> str:
    """Who saw how late records came to the end of the hop."""
    return hop.edge.name if hop.edge.kind == "consumer" else hop.edge.downstream


def _learned_since(now_ms: int) -> int:
    return now_ms - now_ms % DAY_MS - LEARNED_DAYS * DAY_MS


def topics_known(connection: Connection, hop: Hop) -> dict[str, frozenset[str]]:
    """The topics that the collectors of the hop's clusters know."""
    return {cluster: facts.topics_on(connection, cluster) for cluster in set(hop.clusters())}


def judge_windows(
    connection: Connection,
    hop: Hop,
    topic: str,
    windows: Sequence[int],
    settings: AuditSettings,
    now_ms: int,
) -> list[Verdict]:
    """The verdicts of these windows (starts, ms) of one topic on one edge, as of now."""
    known = topics_known(connection, hop)
    downstream, upstream = counters_through(connection, hop, topic, known, undamaged=True)
    mirror = carried.mirror_reporter(connection, hop.edge) if hop.edge.kind == "mirror" else None
    passed = _passed(connection, hop.edge, topic, mirror is not None, settings.silence_ms)
    damage = damage_of(connection, hop, topic, known, passed)
    cells = _Gathering(connection, hop, topic, windows, known).cells(passed, downstream)
    collides = hop.edge.kind == "mirror" and collision(
        hop.edge, topic, known.get(hop.edge.upstream, ())
    )
    if collides:
        return [undecidable(hop.edge, topic, at, cells[at], collides) for at in windows]
    reporters = [mirror] if mirror else _reporters(connection, hop, topic, cells)
    changed = _changes(connection, hop, topic, windows, known)
    settle = settle_ms(connection, hop, topic, settings, now_ms)
    hidden = _hidden(connection, hop.edge, topic, windows, settings.window_ms)
    _check_times(now_ms + settings.skew_ms, downstream, upstream, *changed.values())
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
                settle_ms=settle,
                silence_ms=settings.silence_ms,
                downstream_through=downstream,
                upstream_through=upstream,
                changed=changed.get(window, 0),
            ),
            damage,
            hidden.get(window, 0),
        )
        for window in windows
    ]


def _hidden(
    connection: Connection, edge: Edge, topic: str, windows: Sequence[int], window_ms: int
) -> dict[int, int]:
    """By window, the records downstream that were counted and not told apart."""
    if edge.kind == "consumer":
        return {}
    there = edge.downstream_topic(topic)
    return hidden_records(connection, edge.downstream, there, windows, window_ms)


def _check_times(latest: int, *times: int) -> None:
    """AbsurdError: what was written after ``latest`` (ms) was not. To believe that a counter has
    counted until then would make all that is still to come a loss."""
    wrong = max(times)
    if wrong > latest:
        raise AbsurdError(f"the store says that it was counted or changed at {utc(wrong)}")


def counters_through(
    connection: Connection, hop: Hop, topic: str, known: Known, *, undamaged: bool = False
) -> tuple[int, int]:
    """Up to when (ms) the counters downstream and upstream of the hop have counted; ``undamaged``:
    without partitions that nobody can read, of which :func:`damage_of` tells."""
    down, up = hop.sides(topic, known)

    def through(sides: Iterable[Place]) -> int:
        return min(facts.counted_through(connection, *side, undamaged) for side in sides)

    return through(down), through(up)


def damage_of(
    connection: Connection, hop: Hop, topic: str, known: Known, passed: Mapping[int, Passed]
) -> Damage:
    """The logs on both sides of the hop that cannot be read to their end, and those upstream in
    which its mirror says that it stands still. ``passed``: how far that has come."""
    down, up = (
        tuple(_spread(connection, one) for side in sides for one in damaged(connection, *side))
        for sides in hop.sides(topic, known)
    )
    if hop.edge.kind != "mirror":
        return Damage(down, up)
    stops = carried.stops_of(connection, hop.edge, topic)
    began = began_anew(connection, hop.edge.upstream).get(topic, 0) if stops else 0
    carrier = standing_still(hop.edge, topic, stops, passed, began)
    return Damage(down, up, tuple(_spread(connection, one) for one in carrier))


def _spread(connection: Connection, one: Damaged) -> Damaged:
    anywhere = one.topic == AUDIT_TOPIC or is_spread(connection, one.cluster, one.topic)
    return one._replace(spread=anywhere)


def _changes(
    connection: Connection, hop: Hop, topic: str, windows: Sequence[int], known: Known
) -> dict[int, int]:
    latest: dict[int, int] = {}
    for cluster, name in hop.places(topic, known):
        for window, at in facts.changes(connection, [cluster], name, windows).items():
            latest[window] = max(latest.get(window, 0), at)
    return latest


def _passed(
    connection: Connection, edge: Edge, topic: str, told: bool, patience_ms: int
) -> Mapping[int, Passed]:
    """How far whoever carries the topic over the edge has come in each partition upstream. With one
    that was deleted it is done, after ``patience_ms``."""
    if edge.kind == "mirror":
        way = carried.passed_by_mirror if told else carried.mirrored_through
        passed = way(connection, edge, topic)
    elif edge.kind == "consumer":
        members = facts.members_of(connection, edge.upstream, edge.group, topic)
        names = [one.reporter for one in members]
        passed = carried.passed_by_group(connection, edge.upstream, names, topic)
    else:
        return {}
    return with_deletions(connection, edge.upstream, topic, passed, patience_ms)


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Both sides of an edge, read from the store."""

    connection: Connection
    hop: Hop
    topic: str
    windows: Sequence[int]
    known: Known

    def cells(
        self, passed: Mapping[int, Passed], counted_through: int
    ) -> dict[int, list[CellFacts]]:
        """By window. ``passed``: how far the edge has been carried; what it brought is counted up
        to ``counted_through`` (ms)."""
        if self.hop.edge.kind == "consumer":
            return self._of_group(passed, counted_through)
        return self._of_cluster(passed, counted_through)

    def _of_cluster(
        self, passed: Mapping[int, Passed], counted_through: int
    ) -> dict[int, list[CellFacts]]:
        edge = self.hop.edge
        there = edge.downstream_topic(self.topic)
        downstream = facts.observed(self.connection, edge.downstream, there, self.windows)
        claims = facts.claimed(self.connection, edge.downstream, there, self.windows)
        above = self._above()
        mine = above.get((edge.upstream, self.topic), facts.Counted({}))
        homes = self._homes([downstream, mine.cells]) if above else {}
        is_mirror = edge.kind == "mirror"
        gaps = carried.gaps_of(self.connection, edge, self.topic) if is_mirror else []
        if is_mirror:
            gaps += deletion_gaps(self.connection, edge.upstream, self.topic)
        return {
            at: beside(
                self.hop,
                self.topic,
                Sides(
                    downstream.get(at, {}),
                    claims.get(at, {}),
                    {place: counted.cells.get(at, {}) for place, counted in above.items()},
                    mine.parts.get(at, {}),
                    homes,
                    passed,
                    counted_through,
                    gaps,
                ),
            )
            for at in self.windows
        }

    def _of_group(
        self, passed: Mapping[int, Passed], counted_through: int
    ) -> dict[int, list[CellFacts]]:
        edge, topic = self.hop.edge, self.topic
        held = facts.counted(self.connection, edge.upstream, topic, self.windows)
        done = facts.processed(self.connection, edge.upstream, edge.group, topic, self.windows)
        members = facts.members_of(self.connection, edge.upstream, edge.group, topic)
        names = [one.reporter for one in members]
        words = carried.words_of(self.connection, edge.upstream, names, topic)
        owed = owing(words, members)
        return {
            at: consumer_facts(
                held.cells.get(at, {}),
                done.cells.get(at, {}),
                done.filtered.get(at, {}),
                in_flight(held.parts.get(at, {}), passed, counted_through),
                done.doubted.get(at, {}),
                unreported(held.parts.get(at, {}), owed),
            )
            for at in self.windows
        }

    def _above(self) -> dict[Place, facts.Counted]:
        """What is counted of the topic, by whatever name, in every cluster mirrored in."""
        return {
            (up, name): facts.counted(self.connection, up, name, self.windows)
            for up, names in self.hop.upstreams(self.topic, self.known).items()
            for name in names
        }

    def _homes(self, sides: Iterable[facts.ByWindow]) -> dict[str, str]:
        found = {key.instance for side in sides for cells in side.values() for key in cells}
        return facts.homes(self.connection, self.hop.may_be_home(), found - {""})


def _reporters(
    connection: Connection, hop: Hop, topic: str, cells: Mapping[int, list[CellFacts]]
) -> list[ReporterFacts]:
    edge = hop.edge
    if edge.kind == "mirror":
        return []
    if edge.kind == "consumer":
        return facts.members_of(connection, edge.upstream, edge.group, topic)
    instances = {one.key.instance for some in cells.values() for one in some if one.key.stamped}
    return facts.reporters_of(connection, edge.downstream, topic, instances)
