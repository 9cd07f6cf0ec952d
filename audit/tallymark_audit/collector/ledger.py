"""The collector's side of the store: positions and cells in memory, and every write of them.

What is in memory is a copy. It is thrown away whenever a write fails, so that no error can count a
record twice or skip one; the worst it can do is to make the collector late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from tallymark_audit.cells import CellKey
from tallymark_audit.collector.counting import SeenRun, count
from tallymark_audit.collector.monitoring import MonitoringBatch
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.sides import Observation
from tallymark_audit.store import Store, counts
from tallymark_audit.store.claims import add_events
from tallymark_audit.store.counts import Position

REMEMBERED: Final = 4096
"""Cells kept in memory beside a partition's position, the latest ones."""
NO_MESSAGES: Final = frozenset({"control", "compaction"})
"""Reasons of gaps in which no message is lost."""
Place = tuple[str, int]
"""Topic and partition."""
Cells = dict[CellKey, Observation]


@dataclass(slots=True)
class Counted:
    """What one fetch of one partition brought: from ``start`` up to ``to``."""

    start: int
    to: Position
    runs: Sequence[SeenRun] = ()
    monitoring: MonitoringBatch | None = None

    @property
    def place(self) -> Place:
        return self.to.topic, self.to.partition

    @property
    def moved(self) -> bool:
        return self.to.next_offset != self.start


@dataclass(slots=True)
class Ledger:
    """What is counted of one cluster. FencedError from any write: another collector took over."""

    store: Store
    cluster: str
    generation: int = 0
    positions: dict[Place, Position] = field(default_factory=dict[Place, Position])
    _cells: dict[Place, Cells] = field(default_factory=dict[Place, Cells])

    def take_over(self, owner: str, now: int) -> None:
        """Become the cluster's collector, and go on where the store says."""
        with self.store.write() as connection:
            self.generation = counts.take_over(connection, self.cluster, owner, now)
        self.reload()

    def reload(self) -> None:
        """Only the store knows what holds."""
        self._cells = {}
        with self.store.read() as connection:
            known = counts.load_positions(connection, self.cluster)
        self.positions = {(each.topic, each.partition): each for each in known}

    def begin(self, new: Sequence[Position], discovered_at: int, now: int) -> None:
        """Begin to count these partitions; every topic there was at ``discovered_at`` is known."""
        with self.write(now, discovered_at) as connection:
            counts.add_positions(connection, self.cluster, self.generation, new)
        self.positions.update(((each.topic, each.partition), each) for each in new)

    def commit(self, found: Sequence[Counted], now: int) -> None:
        """Counts and positions, together or not at all."""
        cells: dict[Place, Cells] = {}
        with self.write(now) as connection:
            for one in found:
                counts.move(connection, self.cluster, self.generation, one.start, one.to)
                if one.runs:
                    cells[one.place] = self._save(connection, one, now)
                if one.monitoring:
                    self._save_monitoring(connection, one.monitoring, now)
        self.advance(found)
        for place, changed in cells.items():
            self._remember(place, changed)

    def advance(self, found: Sequence[Counted]) -> None:
        """Remember where we are without telling the store yet: nothing was counted."""
        self.positions.update((one.place, one.to) for one in found)

    def start_over(self, known: Position, topic_id: str, now: int) -> None:
        """The topic was deleted and made again: what was counted stays, a new log begins."""
        fresh = Position(known.topic, known.partition, topic_id)
        reason = f"the topic was deleted and made again; its log was counted to {known.next_offset}"
        with self.write(now) as connection:
            counts.detach_offsets(connection, self.cluster, known.topic)
            self._jump(connection, known, fresh, "recreated", reason, now)
        self._jumped(fresh)

    def skip(self, known: Position, to: Position, reason: str, now: int) -> None:
        """The records up to ``to`` are gone before they were counted."""
        with self.write(now) as connection:
            self._jump(connection, known, to, "expired", reason, now)
        self._jumped(to)

    def cut(self, known: Position, to: Position, rebuilt: Cells, reason: str, now: int) -> None:
        """The log was cut at ``to.next_offset``: the cells that reach beyond are replaced by
        ``rebuilt``, which were counted again up to there."""
        topic, partition = known.topic, known.partition
        with self.write(now) as connection:
            self._jump(connection, known, to, "truncated", reason, now)
            counts.replace_beyond(
                connection, self.cluster, topic, partition, to.next_offset, rebuilt, now
            )
        self._jumped(to)

    def cells_beyond(self, place: Place, offset: int) -> list[Observation]:
        """The cells that hold a record at ``offset`` of the partition or later."""
        with self.store.read() as connection:
            return counts.cells_beyond(connection, self.cluster, *place, offset)

    @contextmanager
    def write(self, now: int, discovered_through: int | None = None) -> Iterator[Connection]:
        """A write transaction that only the cluster's present collector can make."""
        with self.store.write() as connection:
            counts.fence(connection, self.cluster, self.generation, now, discovered_through)
            yield connection

    def _jump(
        self,
        connection: Connection,
        known: Position,
        to: Position,
        kind: str,
        reason: str,
        now: int,
    ) -> None:
        counts.move(connection, self.cluster, self.generation, known.next_offset, to)
        counts.add_incident(
            connection,
            self.cluster,
            kind,
            reason,
            now,
            known.topic,
            known.partition,
            min(known.next_offset, to.next_offset),
            max(known.next_offset, to.next_offset),
        )

    def _jumped(self, to: Position) -> None:
        place = (to.topic, to.partition)
        self.positions[place] = to
        self._cells.pop(place, None)

    def _save(self, connection: Connection, one: Counted, now: int) -> Cells:
        topic, partition = one.place
        before: Mapping[CellKey, Observation] = self._cells.get(one.place, {})
        unknown = {run.key for run in one.runs} - before.keys()
        if unknown:
            stored = counts.load_observations(connection, self.cluster, topic, partition, unknown)
            before = {**before, **stored}
        changed = count(one.runs, partition, before)
        counts.save_observations(connection, self.cluster, topic, partition, changed.values(), now)
        return changed

    def _save_monitoring(self, connection: Connection, read: MonitoringBatch, now: int) -> None:
        add_events(connection, self.cluster, read.events, now, read.trimmed)
        for event in read.events:
            for gap in event.gaps:
                if gap.reason not in NO_MESSAGES:
                    counts.add_gap(connection, self.cluster, event.reporter, gap)
        for offset, reason in read.bad:
            place = (AUDIT_TOPIC, read.partition, offset, offset + 1)
            counts.add_incident(connection, self.cluster, "bad-event", reason, now, *place)

    def _remember(self, place: Place, changed: Cells) -> None:
        cells = self._cells.setdefault(place, {})
        for key, seen in changed.items():
            cells.pop(key, None)  # to the end: the least lately changed are at the front
            cells[key] = seen
        for key in list(cells)[: max(0, len(cells) - REMEMBERED)]:
            del cells[key]
