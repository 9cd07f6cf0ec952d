"""What a judgement needs to know, as data, and the protocol of what can supply it.

The collector's store and Spark's nightly count both are a :class:`FactSource`. They count and read
claims independently of each other. What is done with the answers is written once, in
:mod:`.windows`. Pure: shapes only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tallymark_audit.judge.copy_progress import GapOf, Parts, Passed, Stop, Word
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.judge.hops import Hop, Known
from tallymark_audit.judge.states import ReporterFacts
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.model.sketches import Sketch


@dataclass(frozen=True, slots=True)
class Counted:
    """What the counter of a cluster saw of a topic, by window (start, ms): ``cells`` are whole,
    ``parts`` say in which partitions of the log each cell lies, as far as offsets are known."""

    cells: Mapping[int, Mapping[CellKey, Observation]]
    parts: Mapping[int, Parts] = field(default_factory=dict[int, Parts])


@dataclass(frozen=True, slots=True)
class Carried:
    """How far the mirror, the group or the load of an edge has come in one topic.

    ``words``: the newest report of each reporter on each partition. ``watched``: of a mirror that
    reports no offsets, by partition, what it has passed for certain; None if the mirror reports.
    ``gaps``: what a mirror or a load could not copy; ``stops``: where it reported that it cannot
    read on. ``deleted`` and ``detached``: by partition upstream, when (ms) the partition was
    deleted, and when it became another log. ``began`` (ms): when the topic upstream was made again;
    0: never."""

    words: Sequence[Word] = ()
    watched: Mapping[int, Passed] | None = None
    gaps: Sequence[GapOf] = ()
    stops: Sequence[Stop] = ()
    deleted: Mapping[int, int] = field(default_factory=dict[int, int])
    detached: Mapping[int, int] = field(default_factory=dict[int, int])
    began: int = 0


@dataclass(frozen=True, slots=True)
class CounterTimes:
    """Up to when (ms) the counters of a hop have counted. ``downstream``, ``upstream`` and
    ``waits`` as in :class:`.states.Clock`; ``carried``: what a mirror or a group reported before
    this time is in the counts."""

    downstream: int
    upstream: int
    carried: int
    waits: tuple[OpenTransaction, ...] = ()


class FactSource(Protocol):
    """Supplies the facts of a judgement. Windows are starts in ms; an answer may leave out windows
    and partitions of which nothing is known."""

    @property
    def latest(self) -> int:
        """A time (ms) that the source noted and that lies later cannot be right."""
        ...

    def known(self, hop: Hop) -> Known:
        """The topics that the hop's clusters have."""
        ...

    def counted(self, cluster: str, topic: str, windows: Sequence[int]) -> Counted:
        """What was counted in the cluster."""
        ...

    def claimed(
        self, cluster: str, topic: str, windows: Sequence[int]
    ) -> Mapping[int, Mapping[CellKey, Claim]]:
        """What producers report to the cluster, each cell the union of its reporters."""
        ...

    def processed(self, edge: Edge, topic: str, windows: Sequence[int]) -> Iterable[Claim]:
        """What the runs of the edge's group report, or the tables of the lake that are there
        (:func:`~tallymark_audit.judge.loaded.current_tables`): one claim a run or commit and cell,
        in these windows."""
        ...

    def homes(self, clusters: Collection[str], instances: Collection[str]) -> Mapping[str, str]:
        """On which of the clusters an instance reports what it produces."""
        ...

    def mirror(self, edge: Edge) -> ReporterFacts | None:
        """The edge's mirror; None if it does not report how far it has copied."""
        ...

    def members(self, edge: Edge, topic: str) -> list[ReporterFacts]:
        """The runs of the edge's group that report on the topic, or are at work on it; the tables
        of the lake, those of before too."""
        ...

    def producers(self, edge: Edge, topic: str, instances: Collection[str]) -> list[ReporterFacts]:
        """The producers that report on the edge's cluster and publish to the topic, or are of
        these instances."""
        ...

    def carried(self, edge: Edge, topic: str, carriers: Sequence[str]) -> Carried:
        """How far these reporters have carried the topic over a mirror's or a group's edge; none of
        them: the edge's mirror reports nothing, and is watched."""
        ...

    def damaged(self, cluster: str, topic: str) -> Iterable[Damaged]:
        """Where the topic's logs cannot be read."""
        ...

    def is_spread(self, cluster: str, topic: str) -> bool:
        """Whether cells of the topic lie in other partitions than those they began in."""
        ...

    def counters(self, hop: Hop, topic: str, known: Known) -> CounterTimes:
        """Up to when both sides are counted, leaving out partitions that cannot be read."""
        ...

    def changes(self, cluster: str, topic: str, windows: Sequence[int]) -> Mapping[int, int]:
        """By window, when (ms) a count or a claim of it last changed in the cluster."""
        ...

    def lateness(self, counter: str, topic: str) -> Sketch:
        """How late (ms) records of the topic came to a counter: a cluster, or a consumer edge."""
        ...

    def hidden(self, cluster: str, topic: str, windows: Sequence[int]) -> Mapping[int, int]:
        """By window, how many records the cluster has that may be of any cell of it."""
        ...
