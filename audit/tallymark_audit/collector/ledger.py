"""The collector's side of the store: positions and cells in memory, and what is written of them.

What is in memory is a copy. It is thrown away whenever a write fails, so that no error can count a
record twice or skip one; the worst it can do is to make the collector late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from sqlalchemy import Connection, select

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.counting.cells import MAX_RANGES, count
from tallymark_audit.collector.counting.lateness import Lateness
from tallymark_audit.collector.counting.monitoring import MonitoringBatch
from tallymark_audit.collector.limits.lake_claims import owed, parted
from tallymark_audit.collector.limits.opener import Opener
from tallymark_audit.collector.partitions.vanishing import Vanishing
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.model.sides import Observation
from tallymark_audit.model.time_format import utc
from tallymark_audit.store import Store
from tallymark_audit.store.counted import counts, deleted, positions, recounts
from tallymark_audit.store.counted.claims import add_events
from tallymark_audit.store.counted.damage import (
    UnreadableSpan,
    damaged_places,
    holes_of,
    not_final,
    note_holes,
)
from tallymark_audit.store.counted.incidents import Incident, add_gap, fold_incident
from tallymark_audit.store.counted.lateness import add_latencies, add_lateness
from tallymark_audit.store.counted.positions import FencedError, Position
from tallymark_audit.store.schema.tables import reporters

__all__ = ["CountedFetch", "FencedError", "Ledger", "TopicPartition"]

REMEMBERED: Final = 32_768
"""Cells kept in memory beside the positions, the latest ones of each partition."""
LEAST_REMEMBERED: Final = 64
"""Of each partition, however many there are."""
LATENESS_MS: Final = 5_000
NO_MESSAGES: Final = frozenset({"control", "compaction"})
"""Reasons of gaps in which no message is lost."""
ABSURD: Final = "absurd"
"""The kind of incidents about what the store holds and makes no sense."""
Cells = dict[CellKey, Observation]


@dataclass(slots=True)
class CountedFetch:
    """What one fetch of one partition brought: from ``start`` up to ``to``."""

    start: int
    to: Position
    runs: Sequence[SeenRun] = ()
    monitoring: MonitoringBatch | None = None
    incidents: Sequence[Incident] = ()
    holes: Sequence[UnreadableSpan] = ()
    """What of it could not be read."""
    more: bool = False
    """Whether the log had more that can be read: the fetch, or the round, was full."""

    @property
    def place(self) -> TopicPartition:
        return self.to.place

    @property
    def moved(self) -> bool:
        return self.to.next_offset != self.start


@dataclass(slots=True)
class Ledger:
    """What this collector counts of one cluster. ``generation``: as which collector it is in charge
    of the cluster, 0 while another one is. PartitionFencedError from a write: another collector
    has that partition now."""

    store: Store
    cluster: str
    max_ranges: int = MAX_RANGES
    opener: Opener = field(default_factory=Opener)
    generation: int = 0
    positions: dict[TopicPartition, Position] = field(
        default_factory=dict[TopicPartition, Position]
    )
    backfills: frozenset[str] = frozenset()
    """Instances that say that they fill in old data."""
    lateness: Lateness = field(default_factory=Lateness)
    damaged: frozenset[TopicPartition] = frozenset()
    """Partitions where an older program had stopped."""
    _held: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    _cells: dict[TopicPartition, Cells] = field(default_factory=dict[TopicPartition, Cells])
    _lateness_at: int = 0

    def take_over(self, owner: str, now: int) -> None:
        """Become the collector in charge of the cluster."""
        with self.store.write() as connection:
            generation = positions.take_over(connection, self.cluster, owner, now)
        self.generation = generation

    def step_down(self) -> None:
        """End being in charge, and record it, so that the next collector need not wait."""
        generation, self.generation = self.generation, 0
        if generation:
            with self.store.write() as connection:
                positions.step_down(connection, self.cluster, generation)

    def last_in_charge(self) -> int:
        """The last heartbeat of the collector in charge, ms."""
        with self.store.read() as connection:
            return positions.last_in_charge(connection, self.cluster)

    def announce(
        self,
        new: Sequence[Position],
        discovered_at: int,
        now: int,
        gone: Sequence[TopicPartition] = (),
        again: Sequence[TopicPartition] = (),
    ) -> None:
        """Store that these partitions have to be counted, and which are ``gone``, or there
        ``again``; all topics that existed at ``discovered_at`` are known. FencedError: another
        collector is in charge."""
        with self.write(now, discovered_at) as connection:
            positions.add_positions(connection, self.cluster, new)
            deleted.note_deleted(connection, self.cluster, gone, now)
            recounts.end_of(connection, self.cluster, gone)
            deleted.note_there(connection, self.cluster, again)

    def followed(self) -> Vanishing:
        """The partitions that are counted, and those of them that are deleted."""
        with self.store.read() as connection:
            there = positions.load_positions(connection, self.cluster)
            gone = set(deleted.deleted_places(connection, self.cluster))
        return Vanishing({at.place for at in there} - gone, gone)

    def take(self, wanted: Iterable[Position]) -> None:
        """Count these partitions from now on, from their positions in the store."""
        with self.store.write() as connection:
            taken = positions.take(connection, self.cluster, wanted)
            self.damaged = damaged_places(connection, self.cluster)
        for position in taken:
            self.positions[position.place] = position
            self._held[position.place] = position.generation
            self.forget_cells(position.place)
            self.opener.forget(position.place)

    def drop(self, places: Iterable[TopicPartition]) -> None:
        """Others count these now."""
        for place in places:
            for known in (self.positions, self._held, self._cells):
                known.pop(place, None)

    def reload(self) -> set[TopicPartition]:
        """Read everything from the store again, which alone is right. Returns the partitions that
        others have taken."""
        with self.store.read() as connection:
            known = positions.load_positions(connection, self.cluster)
            self.damaged = damaged_places(connection, self.cluster)
        ours = {at.place: at for at in known if self._held.get(at.place) == at.generation}
        lost = self._held.keys() - ours.keys()
        self._cells = {}
        self.opener.forget_all()
        self._held = {place: at.generation for place, at in ours.items()}
        self.positions = ours
        return lost

    def places_ever(self) -> set[TopicPartition]:
        """Every partition of the cluster that was ever to be counted."""
        with self.store.read() as connection:
            return {at.place for at in positions.load_positions(connection, self.cluster)}

    def read_backfills(self) -> None:
        """Learn which instances fill in old data."""
        query = select(reporters.c.instance).where(
            reporters.c.cluster == self.cluster, reporters.c.backfill
        )
        with self.store.read() as connection:
            self.backfills = frozenset(connection.scalars(query))

    def commit(self, found: Sequence[CountedFetch], now: int) -> None:
        """Write counts and positions, together or not at all. Several fetches of one partition are
        in the order of its log, each beginning where the one before ends."""
        cells: dict[TopicPartition, Cells] = {}
        late = now - self._lateness_at >= LATENESS_MS
        steps: dict[TopicPartition, list[CountedFetch]] = {}
        for one in found:
            steps.setdefault(one.place, []).append(one)
        with self.store.write() as connection:
            for place, some in sorted(steps.items()):
                # One write: a step that begins where the last one ended had no other writer in
                # between.
                for start, to in _stretches(some):
                    positions.move(connection, self.cluster, start, to)
                for one in some:
                    self.save_report(connection, one, now)
                    note_holes(connection, self.cluster, place, one.holes, now)
                runs = [run for one in some for run in one.runs]
                if runs:
                    cells[place] = self.save_runs(connection, place, runs, now)
            changed = chain.from_iterable(each.values() for each in cells.values())
            counts.touch(connection, self.cluster, counts.windows_of(changed), now)
            if late:
                add_lateness(connection, self.cluster, self.lateness.seen)
                add_latencies(connection, self.cluster, self.lateness.lately)
        self.advance(found)
        for place, saved in cells.items():
            self._remember(place, saved)
        if late:
            self._lateness_at = now
            self.lateness.clear()

    def advance(self, found: Sequence[CountedFetch]) -> None:
        """Keep the positions in memory, without writing them to the store yet."""
        self.positions.update((one.place, one.to) for one in found)

    def holes(self, place: TopicPartition) -> list[UnreadableSpan]:
        """What could not be read of a partition, and is not counted."""
        with self.store.read() as connection:
            return holes_of(connection, self.cluster, place)

    def may_be_mended(self) -> list[tuple[TopicPartition, UnreadableSpan]]:
        """What could not be read of our partitions, and may be by now."""
        with self.store.read() as connection:
            found = not_final(connection, self.cluster)
        return [one for one in found if one[0] in self.positions]

    def note(self, incident: Incident, now: int) -> None:
        """Record an incident; one like it within a day is counted, see fold_incident."""
        with self.store.write() as connection:
            fold_incident(connection, self.cluster, incident, now)

    def cells_beyond(self, place: TopicPartition, offset: int) -> list[Observation]:
        """The cells that hold a record at ``offset`` of the partition or later."""
        with self.store.read() as connection:
            return counts.cells_beyond(connection, self.cluster, *place, offset)

    def forget_cells(self, place: TopicPartition) -> None:
        """Read the cells of a partition from the store when they are needed next."""
        self._cells.pop(place, None)

    @contextmanager
    def write(self, now: int, discovered_through: int | None = None) -> Iterator[Connection]:
        """A write transaction that only the collector in charge of the cluster can make."""
        with self.store.write() as connection:
            positions.fence(connection, self.cluster, self.generation, now, discovered_through)
            yield connection

    def save_runs(
        self, connection: Connection, place: TopicPartition, runs: Sequence[SeenRun], now: int
    ) -> Cells:
        """Add runs to the cells of a partition in a transaction of the caller. Returns the changed
        cells; those in memory stay as they were."""
        before: Mapping[CellKey, Observation] = self._cells.get(place, {})
        unknown = {run.key for run in runs} - before.keys()
        if unknown:
            absurd: dict[CellKey, str] = {}
            stored = counts.load_observations(connection, self.cluster, *place, unknown, absurd)
            before = {**before, **stored}
            if absurd:
                runs = self._leave_out(connection, place, runs, absurd, now)
            new = [key for key in dict.fromkeys(run.key for run in runs) if key not in before]
            lumped = self.opener.open(connection, self.cluster, place, runs, new, now)
            if lumped:
                cells = counts.load_observations(connection, self.cluster, *place, lumped)
                before = {**before, **cells}
        changed = count(runs, place[1], before, self.max_ranges)
        counts.put_observations(connection, self.cluster, *place, changed.values())
        return changed

    def _leave_out(
        self,
        connection: Connection,
        place: TopicPartition,
        runs: Sequence[SeenRun],
        absurd: Mapping[CellKey, str],
        now: int,
    ) -> list[SeenRun]:
        """The runs without those of cells whose row makes no sense: the row stays as it is, so that
        the window is UNKNOWN, and the runs left out are reported."""
        for key, reason in absurd.items():
            mine = [run for run in runs if run.key == key]
            start, end = mine[0].offset, max(run.last_offset for run in mine) + 1
            told = f"these records of {utc(key.window)} cannot be counted: {reason}"
            incident = Incident(ABSURD, told, *place, start, end, sum(run.count for run in mine))
            fold_incident(connection, self.cluster, incident, now)
        return [run for run in runs if run.key not in absurd]

    def save_report(self, connection: Connection, one: CountedFetch, now: int) -> None:
        """Write the events and the incidents of a fetch in a transaction of the caller."""
        read = one.monitoring
        if read is not None:
            place = self.cluster, read.partition
            loads, others = parted(read.events)
            events = self.opener.take_in(connection, *place, others, now)
            events += owed(connection, self.cluster, loads)
            add_events(connection, self.cluster, events, now, read.trimmed)
            for event in events:
                for gap in event.gaps:
                    if gap.reason not in NO_MESSAGES:
                        add_gap(connection, self.cluster, event.reporter, gap)
        for incident in one.incidents:
            fold_incident(connection, self.cluster, incident, now)

    def _remember(self, place: TopicPartition, changed: Cells) -> None:
        cells = self._cells.setdefault(place, {})
        for key, seen in changed.items():
            cells.pop(key, None)  # to the end: the least lately changed are at the front
            cells[key] = seen
        most = max(LEAST_REMEMBERED, REMEMBERED // max(1, len(self._cells)))
        for key in list(cells)[: max(0, len(cells) - most)]:
            del cells[key]


def _stretches(steps: Iterable[CountedFetch]) -> list[tuple[int, Position]]:
    """The steps of one partition joined: from an offset on, to a position."""
    found: list[tuple[int, Position]] = []
    for step in steps:
        if found and found[-1][1].next_offset == step.start:
            found[-1] = (found[-1][0], step.to)
        else:
            found.append((step.start, step.to))
    return found
