"""A table of the lake in memory, and a load that brings a cluster's log into it, with the faults
that a test asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.protocol.records.batch import Record
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.model.cells import CellKey, Copy, window_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.reporters.lake.commit_events import TableIdentity, events_of
from tallymark_audit.reporters.lake.tallies import LakeCommit, LakeTally, LoadedThrough
from tallymark_audit.testing import MemoryCluster, Told


@dataclass
class MemoryLake:
    """The table of one topic of ``cluster``. Its version begins at 3: others committed before."""

    cluster: MemoryCluster
    window_ms: int
    topic: str = "t"
    table: str = "aggregate/t"
    table_id: str = "table-1"
    created_at: int = 1
    version: int = 2
    reported: int = -1
    through: dict[int, int] = field(default_factory=dict)
    """By partition, up to which offset it is loaded."""
    rows: set[tuple[int, int]] = field(default_factory=set)
    """Partition and offset of every row."""

    @property
    def who(self) -> TableIdentity:
        return TableIdentity(self.table, self.table_id, self.created_at, "driver-1", self.window_ms)

    def load(
        self,
        at: int,
        *,
        most: int = 1 << 30,
        lose: Collection[int] = (),
        twice: Collection[int] = (),
        quarantine: Collection[int] = (),
    ) -> LakeCommit:
        """Commit what is new in every partition, up to ``most`` offsets of each, without those to
        ``lose``."""
        self.version += 1
        tallies: list[LakeTally] = []
        for (topic, partition), log in sorted(self.cluster.logs.items()):
            if topic != self.topic:
                continue
            start = self.through.get(partition, 0)
            end = min(start + most, log.end)
            records = [
                r for batch in log.batches for r in batch.records() if start <= r.offset < end
            ]
            kept = [one for one in records if one.offset not in {*lose, *quarantine}]
            self.rows |= {(partition, one.offset) for one in kept}
            tallies += self.tallies(
                partition,
                [*kept, *(one for one in kept if one.offset in twice)],
                [one for one in records if one.offset in quarantine],
            )
            self.through[partition] = end
        ids = self.cluster.ids[self.topic]
        loaded = [LoadedThrough(self.topic, p, end, str(ids)) for p, end in self.through.items()]
        return LakeCommit(self.version, at, tuple(tallies), tuple(loaded))

    def load_again(self, at: int, partition: int, first: int, last: int) -> LakeCommit:
        """Commit exactly these offsets, as a repair does."""
        self.version += 1
        log = self.cluster.log(self.topic, partition)
        records = [r for b in log.batches for r in b.records() if first <= r.offset <= last]
        self.rows |= {(partition, one.offset) for one in records}
        return LakeCommit(self.version, at, tuple(self.tallies(partition, records, [])))

    def report(self, commit: LakeCommit, now: int) -> None:
        """Publish the commit's report."""
        log = self.cluster.log(AUDIT_TOPIC)
        for event in events_of(self.who, commit, self.reported):
            log.append([Told(None, now, encode_event(event))])
        self.reported = commit.version

    def tallies(
        self, partition: int, rows: list[Record], quarantined: list[Record]
    ) -> list[LakeTally]:
        """What a task counts."""
        cells: dict[CellKey, tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
        for side, records in enumerate((rows, quarantined)):
            for record in records:
                cells[self._key(partition, record)][side].append(record)
        return [self._tally(key, *sides) for key, sides in cells.items()]

    def _tally(self, key: CellKey, rows: list[Record], aside: list[Record]) -> LakeTally:
        numbers = [_number(one) for one in rows] if key.stamped else []
        seen: set[int] = set()
        copies: list[Copy] = []
        for number, row in zip(numbers, rows, strict=False):
            if number in seen:
                copies.append(Copy(key.partition, row.offset, number))
            seen.add(number)
        hidden = RangeSet.of(_number(one) for one in aside) if key.stamped else RangeSet()
        return LakeTally(
            key,
            len(rows),
            RangeSet.of(seen).ranges,
            sum(len(row.value or b"") for row in rows),
            tuple(copies),
            hidden.ranges,
            len(aside),
            min_timestamp=min((row.timestamp for row in rows), default=-1),
            max_timestamp=max((row.timestamp for row in rows), default=-1),
        )

    def _key(self, partition: int, record: Record) -> CellKey:
        window = window_of(record.timestamp, self.window_ms)
        stamp = stamp_of(record.headers)
        if not isinstance(stamp, Stamp):
            return CellKey(self.topic, partition, window, "", "")
        return CellKey(self.topic, stamp.partition, window, stamp.server, stamp.instance.hex())


def _number(record: Record) -> int:
    stamp = stamp_of(record.headers)
    assert isinstance(stamp, Stamp)
    return stamp.sequence
