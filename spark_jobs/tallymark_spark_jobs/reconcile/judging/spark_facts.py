"""What Spark has counted and read, as the source of facts for
:func:`tallymark_audit.judge.windows.judge_windows`. Pure: no Spark, no store, no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.judge.copy_progress import (
    GAP_MEANS,
    STOPPED,
    GapOf,
    Part,
    Passed,
    Stop,
    Word,
    mirror_of,
)
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.judge.fact_source import Carried, Counted, CounterTimes
from tallymark_audit.judge.hops import Hop, Known
from tallymark_audit.judge.loaded import current_tables
from tallymark_audit.judge.verdicts import ReporterFacts
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import FOREVER, CellKey, Edge
from tallymark_audit.model.sides import Claim, Observation

Cells = dict[CellKey, Observation]
ByWindow = dict[int, Cells]
Publishing = Mapping[str, Collection[str]]
"""By topic, the reporters that report on it."""
NO_PUBLISHING: Final = MappingProxyType(dict[str, Publishing]())


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of a run. ``as_of`` (ms): when the ends of the logs were fixed.

    ``observed``: by cluster and topic; ``parts``: the same by partition, as far as offsets are
    known. ``late``: by counter and topic, how late records come (a sketch of ms). ``owed_from``: by
    edge and topic, since when (ms) the topic belongs to the edge, if not always. ``retired``: by
    cluster, reporters that an operator has ended. ``changed``: by cluster, topic and window, when
    (ms) a collector last saw a count or claim change; it only makes a verdict wait, it never makes
    one. ``retained_from``: by cluster and topic, the time (ms) before which records may have
    expired. ``damaged``: partitions that cannot be read to their end. ``began``: by cluster and
    topic, when (ms) it was made again, if it was.

    Where these are the facts of some windows only, what is known of all of them is added:
    ``known``, the topics that have records, by cluster; ``publishing``, by cluster; ``spread``, the
    places of which cells lie in other partitions than those they began in."""

    as_of: int
    observed: Mapping[tuple[str, str], ByWindow]
    books: Mapping[str, ClaimBook]
    retired: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    changed: Mapping[tuple[str, str], Mapping[int, int]] = field(
        default_factory=dict[tuple[str, str], Mapping[int, int]]
    )
    retained_from: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    parts: Mapping[tuple[str, str], Mapping[int, Mapping[CellKey, list[Part]]]] = field(
        default_factory=dict[tuple[str, str], Mapping[int, Mapping[CellKey, list[Part]]]]
    )
    late: Mapping[tuple[str, str], sketches.Sketch] = field(
        default_factory=dict[tuple[str, str], sketches.Sketch]
    )
    owed_from: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    damaged: Sequence[Damaged] = ()
    began: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    known: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    publishing: Mapping[str, Publishing] = field(default_factory=dict[str, Publishing])
    spread: Collection[tuple[str, str]] = ()


class SparkFacts:
    """A :class:`~tallymark_audit.judge.fact_source.FactSource` over :class:`Facts`. Everything that
    was there at ``as_of`` has been counted."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._claims = _claims_by_window(facts.books)
        self._instances = _instances(facts.books)
        self._known = _topics_by_cluster(facts)

    @property
    def latest(self) -> int:
        return FOREVER  # times of the store only make a verdict wait, they never make one

    def known(self, hop: Hop) -> Known:
        return self._known

    def counted(self, cluster: str, topic: str, windows: Sequence[int]) -> Counted:
        cells = self.observed(cluster, topic)
        parts = self._facts.parts.get((cluster, topic), {})
        return Counted(
            {at: cells[at] for at in windows if at in cells},
            {at: parts[at] for at in windows if at in parts},
        )

    def claimed(
        self, cluster: str, topic: str, windows: Sequence[int]
    ) -> Mapping[int, dict[CellKey, Claim]]:
        return self._claims.get((cluster, topic), {})

    def processed(self, edge: Edge, topic: str, windows: Sequence[int]) -> Iterable[Claim]:
        wanted = set(windows)
        return [claim for claim in self.reported(edge, topic) if claim.key.window in wanted]

    def homes(self, clusters: Collection[str], instances: Collection[str]) -> dict[str, str]:
        return {
            instance: cluster
            for cluster, here in self._instances.items()
            if cluster in clusters
            for instance in here.intersection(instances)
        }

    def mirror(self, edge: Edge) -> ReporterFacts | None:
        name, book = mirror_of(edge), self.book(edge.home)
        if not any(place.reporter == name for place in book.copied):
            return None
        return next(iter(self._reporters(edge, {name})), None)

    def members(self, edge: Edge, topic: str) -> list[ReporterFacts]:
        book = self.book(edge.home)
        here = self._publishing(edge.home, topic) | {
            at.reporter for at in book.copied if at.topic == topic
        }
        reporters = book.reporters.values()
        group = {
            one.reporter
            for one in reporters
            if one.tier == edge.kind and one.consumer_group == edge.group
        }
        return self._reporters(edge, group & here)

    def producers(self, edge: Edge, topic: str, instances: Collection[str]) -> list[ReporterFacts]:
        book = self.book(edge.home)
        publishing = self._publishing(edge.home, topic)
        names = {
            name
            for name, reporter in book.reporters.items()
            if reporter.tier == "producer"
            and (name in publishing or reporter.instance in instances)
        }
        return self._reporters(edge, names)

    def carried(self, edge: Edge, topic: str, carriers: Sequence[str]) -> Carried:
        book = self.book(edge.home)
        began = self._facts.began.get((edge.upstream, topic), 0)
        # A table has come so far with the log that there was when its last load was committed.
        since = began if edge.kind == "lake" else 0
        words = [
            Word(place.reporter, place.partition, offset, at)
            for place, (at, offset) in book.copied.items()
            if place.topic == topic and place.reporter in carriers and at >= since
        ]
        if edge.kind == "consumer":
            return Carried(words)
        by = set(carriers) if edge.kind == "lake" else {mirror_of(edge)}
        said = [gap for who, gap in book.gaps if who in by and gap.topic == topic]
        return Carried(
            words,
            None if carriers or edge.kind == "lake" else self._all_of(edge.upstream, topic),
            [
                GapOf(gap.partition, gap.first_offset, gap.last_offset, GAP_MEANS[gap.reason])
                for gap in said
                if gap.reason in GAP_MEANS
            ],
            [
                Stop(gap.partition, gap.first_offset, gap.at)
                for gap in said
                if gap.reason == STOPPED
            ],
            began=began,
        )

    def damaged(self, cluster: str, topic: str) -> list[Damaged]:
        return [one for one in self._facts.damaged if (one.cluster, one.topic) == (cluster, topic)]

    def is_spread(self, cluster: str, topic: str) -> bool:
        return (cluster, topic) in self._facts.spread or any(
            part.partition != key.partition
            for cells in self._facts.parts.get((cluster, topic), {}).values()
            for key, some in cells.items()
            for part in some
        )

    def counters(self, hop: Hop, topic: str, known: Known) -> CounterTimes:
        # The data was read after the audit topics: what was reported as carried has been counted.
        return CounterTimes(self._facts.as_of, self._facts.as_of, FOREVER)

    def changes(self, cluster: str, topic: str, windows: Sequence[int]) -> Mapping[int, int]:
        return self._facts.changed.get((cluster, topic), {})

    def lateness(self, counter: str, topic: str) -> sketches.Sketch:
        return self._facts.late.get((counter, topic), {})

    def hidden(self, cluster: str, topic: str, windows: Sequence[int]) -> dict[int, int]:
        return {}  # Spark keeps every cell apart

    def reported(self, edge: Edge, topic: str) -> list[Claim]:
        """What the runs of the edge's group, or the tables of the lake, report of the topic."""
        book = self.book(edge.upstream)
        if edge.kind == "lake":
            tables = {one.reporter for one in current_tables(self.members(edge, topic))}
            return [claim for claim in book.loaded(tables) if claim.key.topic == topic]
        return [claim for claim in book.processed(edge.group) if claim.key.topic == topic]

    def observed(self, cluster: str, topic: str) -> ByWindow:
        """What was counted of a topic, in all windows."""
        return self._facts.observed.get((cluster, topic), {})

    def claimed_windows(self, cluster: str, topic: str) -> Collection[int]:
        """The windows of which producers claim anything."""
        return self._claims.get((cluster, topic), {}).keys()

    def book(self, cluster: str) -> ClaimBook:
        """The reports of the cluster's audit topic; empty if there are none."""
        return self._facts.books.get(cluster) or ClaimBook()

    def _publishing(self, cluster: str, topic: str) -> set[str]:
        told = self._facts.publishing.get(cluster, {}).get(topic, ())
        return self.book(cluster).topics().get(topic, set()).union(told)

    def _reporters(self, edge: Edge, names: Collection[str]) -> list[ReporterFacts]:
        retired = self._facts.retired.get(edge.home, frozenset())
        return [
            reporter.facts(retired=name in retired)
            for name, reporter in self.book(edge.home).reporters.items()
            if name in names
        ]

    def _all_of(self, cluster: str, topic: str) -> dict[int, Passed]:
        """All that there is: a mirror that reports nothing is taken to have had its time."""
        found = self._facts.parts.get((cluster, topic), {})
        return {
            part.partition: Passed(FOREVER)
            for cells in found.values()
            for some in cells.values()
            for part in some
        }


ClaimsByWindow = Mapping[tuple[str, str], Mapping[int, dict[CellKey, Claim]]]


def _claims_by_window(books: Mapping[str, ClaimBook]) -> ClaimsByWindow:
    found: dict[tuple[str, str], dict[int, dict[CellKey, Claim]]] = {}
    for cluster, book in books.items():
        for key, claim in book.claims().items():
            by_window = found.setdefault((cluster, key.topic), defaultdict(dict))
            by_window[key.window][key] = claim
    return found


def _instances(books: Mapping[str, ClaimBook]) -> dict[str, set[str]]:
    """By cluster, the instances of the producers that report on it."""
    return {
        cluster: {one.instance for one in book.reporters.values() if one.tier == "producer"}
        for cluster, book in books.items()
    }


def _topics_by_cluster(facts: Facts) -> dict[str, set[str]]:
    known: dict[str, set[str]] = defaultdict(set)
    for cluster, topics in facts.known.items():
        known[cluster].update(topics)
    for cluster, topic in facts.observed:
        known[cluster].add(topic)
    return known
