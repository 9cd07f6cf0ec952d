"""Archiving forgets nothing: whatever happens to a log and to its claims, and whichever windows are
archived in between, everything reads as in a store that archives nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from sqlalchemy import func, select

from tallymark_audit.collector.judging.locate import offset_ranges
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.ranges import EMPTY
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import archive, counts, facts, positions
from tallymark_audit.store.counted.claims import add_events
from tallymark_audit.store.counted.positions import Position
from tallymark_audit.store.counted.totals import totals_of
from tallymark_audit.store.housekeeping.packing import Changed, collapse
from tallymark_audit.store.reading import window_evidence
from tallymark_audit.store.schema import tables

W = 60_000
WINDOWS = (0, W, 15 * W)
CLUSTER, TOPIC = "dc1", "t"


@dataclass
class Log:
    """A partition as it is: (offset, cell, sequence) of every record. What a counter makes of it is
    worked out record by record."""

    records: list[tuple[int, CellKey, int]] = field(default_factory=list)
    end: int = 0

    def append(self, key: CellKey, sequences: Iterable[int]) -> list[tuple[int, CellKey, int]]:
        new = [(self.end + at, key, number) for at, number in enumerate(sequences)]
        self.records += new
        self.end += len(new)
        return new

    def cut(self, end: int) -> None:
        self.records = [record for record in self.records if record[0] < end]
        self.end = min(self.end, end)


def counted(
    partition: int, records: Iterable[tuple[int, CellKey, int]], before: dict[CellKey, Observation]
) -> dict[CellKey, Observation]:
    cells: dict[CellKey, Observation] = {}
    for offset, key, number in records:
        cell = cells.get(key) or before.get(key) or Observation(key)
        again = number in cell.ranges
        cells[key] = replace(
            cell,
            count=cell.count + 1,
            bytes=cell.bytes + 10,
            ranges=cell.ranges.add(number, number) if key.stamped else EMPTY,
            copies=(*cell.copies, Copy(partition, offset, number)) if again else cell.copies,
            first_offset=offset if cell.first_offset < 0 else cell.first_offset,
            last_offset=offset,
            latency=tuple(sketches.to_list({number % 3: cell.count + 1})),
        )
    return cells


@dataclass
class Side:
    """A collector without anything around it, on one store."""

    store: Store
    archives: bool
    now: int = 1
    logs: dict[int, Log] = field(default_factory=lambda: {0: Log(), 1: Log()})
    tallies: dict[str, Tally] = field(default_factory=dict)
    sent: list[AuditEvent] = field(default_factory=list)
    cache: dict[int, dict[CellKey, Observation]] = field(default_factory=lambda: {0: {}, 1: {}})

    def start(self) -> None:
        with self.store.write() as connection:
            positions.take_over(connection, CLUSTER, "me", 1)

    def append(self, partition: int, key: CellKey, first: int, count: int) -> None:
        records = self.logs[partition].append(key, range(first, first + count))
        with self.store.write() as connection:
            known = self.cache[partition]
            if key not in known:
                known = counts.load_observations(connection, CLUSTER, TOPIC, partition, {key})
            cells = counted(partition, records, known)
            counts.save_observations(
                connection, CLUSTER, TOPIC, partition, cells.values(), self.now
            )
        self.cache[partition].update(cells)

    def forget(self) -> None:
        """As a collector that starts anew."""
        self.cache = {0: {}, 1: {}}

    def claim(self, instance: str, window: int, count: int, lose: int) -> None:
        code = instance * 16
        identity = ReporterIdentity(f"producer-{code}", "web", "app", code, W, 0)
        tally = self.tallies.setdefault(instance, Tally(identity))
        first = sum(self.sizes.get((instance, at), 0) for at in WINDOWS)
        self.sizes[instance, window] = self.sizes.get((instance, window), 0) + count
        run = Run(TallyKey(TOPIC, 0, window), first, first + count - 1, window, window)
        tally.accept(run, count, window)
        done = Outcome.FAILED if lose else Outcome.ACKNOWLEDGED
        tally.settle(run.key, done, run.first, run.last, window)
        for event in tally.report(self.now, self.now, False):
            tally.published(event.event_number)
            self.sent.append(event)
        self.hear(-1)

    sizes: dict[tuple[str, int], int] = field(default_factory=dict)

    def hear(self, at: int) -> None:
        if self.sent:
            with self.store.write() as connection:
                add_events(connection, CLUSTER, [self.sent[at % len(self.sent)]], self.now)

    def cut(self, partition: int, keep: int) -> None:
        log = self.logs[partition]
        end = max(0, log.end - keep)
        with self.store.read() as connection:
            affected = counts.cells_beyond(connection, CLUSTER, TOPIC, partition, end)
        log.cut(end)
        keys = {seen.key for seen in affected}
        rebuilt = counted(partition, (r for r in log.records if r[1] in keys), {})
        with self.store.write() as connection:
            counts.replace_beyond(connection, CLUSTER, TOPIC, partition, end, rebuilt, self.now)
        self.cache[partition].clear()

    def recreate(self) -> None:
        with self.store.write() as connection:
            for partition in (0, 1):
                counts.detach_offsets(connection, CLUSTER, TOPIC, partition, self.now)
        self.logs = {0: Log(), 1: Log()}
        self.forget()

    def archive(self, windows: tuple[int, ...]) -> None:
        if not self.archives:
            return
        changes = tables.window_changes
        with self.store.write() as connection:
            query = select(changes.c.changed_at, changes.c.topic, changes.c.window)
            some = [Changed(*row) for row in connection.execute(query) if row[2] in windows]
            assert collapse(connection, CLUSTER, some, self.now) == len(some)

    def reading(self) -> dict[str, Any]:
        """Everything anybody reads of cells."""
        with self.store.read() as connection:
            observed = facts.observed(connection, CLUSTER, TOPIC, WINDOWS)
            claimed = facts.claimed(connection, CLUSTER, TOPIC, WINDOWS)
            keys = {key for cells in observed.values() for key in cells}
            beyond = [
                counts.cells_beyond(connection, CLUSTER, TOPIC, partition, offset)
                for partition in (0, 1)
                for offset in (0, 3, 7)
            ]
            evidence = window_evidence.evidence(connection, "producer-to-dc1", TOPIC, W)
            return {
                "observed": {w: _plain(cells) for w, cells in observed.items() if cells},
                "claimed": {w: _plain(cells) for w, cells in claimed.items() if cells},
                "loaded": [
                    _plain(counts.load_observations(connection, CLUSTER, TOPIC, partition, keys))
                    for partition in (0, 1)
                ],
                "beyond": [sorted((s.key, s.count, s.ranges.to_list()) for s in b) for b in beyond],
                "offset_ranges": {k: sorted(offset_ranges(connection, CLUSTER, k)) for k in keys},
                "totals": {
                    span: [
                        one._replace(latency=())
                        for one in totals_of(connection, TOPIC, 0, end, span)
                    ]
                    for span, end in ((W, 3 * W), (600_000, 86_400_000), (86_400_000, 86_400_000))
                },
                "evidence": [
                    [{**row, "latency": []} for row in rows]
                    for rows in (evidence.upstream, evidence.downstream)
                ],
            }


def _plain(cells: Any) -> dict[CellKey, Observation | Claim]:
    return {key: replace(cell, latency=()) for key, cell in cells.items()}


keys = st.builds(
    lambda partition, window, instance: (
        CellKey(TOPIC, partition, window, "web", instance * 16)
        if instance
        else CellKey(TOPIC, partition, window, "", "")
    ),
    st.integers(0, 1),
    st.sampled_from(WINDOWS),
    st.sampled_from(["", "a", "b"]),
)
operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.integers(0, 1), keys, st.integers(0, 20), st.integers(1, 8)
        ),
        st.tuples(
            st.just("claim"),
            st.sampled_from("ab"),
            st.sampled_from(WINDOWS),
            st.integers(1, 9),
            st.sampled_from([0, 0, 1]),
        ),
        st.tuples(st.just("archive"), st.sampled_from([WINDOWS, WINDOWS[:1], WINDOWS[1:]])),
        st.tuples(st.just("hear"), st.integers(0, 50)),
        st.tuples(st.just("cut"), st.integers(0, 1), st.integers(1, 12)),
        st.tuples(st.just("recreate")),
        st.tuples(st.just("forget")),
    ),
    min_size=3,
    max_size=12,
)


def check(schedule: list[tuple[Any, ...]], addresses: tuple[str, str]) -> None:
    with open_store(addresses[0]) as one, open_store(addresses[1]) as other:
        plain, archiving = Side(one, archives=False), Side(other, archives=True)
        for side in (plain, archiving):
            side.start()
        for now, (what, *arguments) in enumerate(schedule):
            for side in (plain, archiving):
                side.now = now + 2
                getattr(side, what)(*arguments)
        assert archiving.reading() == plain.reading()


@settings(max_examples=15)
@given(operations)
def test_what_is_archived_reads_as_before(schedule: list[tuple[Any, ...]]) -> None:
    check(schedule, ("sqlite://", "sqlite://"))


def test_on_both_databases(database: str, tmp_path: Any) -> None:
    """A late copy, a late claim, a cut, a topic made again: each on archived windows."""
    cells = [CellKey(TOPIC, 0, window, "web", "a" * 16) for window in WINDOWS]
    archived = ("archive", WINDOWS)
    schedule: list[tuple[Any, ...]] = [
        *(("append", 0, cell, 10 * at, 10) for at, cell in enumerate(cells)),
        *(("claim", "a", window, 10, 0) for window in WINDOWS),
        archived,
        ("append", 0, cells[1], 14, 2),
        archived,
        ("forget",),
        ("append", 1, cells[1], 10, 3),
        archived,
        ("claim", "a", W, 5, 0),
        archived,
        ("hear", 0),
        ("cut", 0, 8),
        archived,
        ("recreate",),
        ("append", 0, cells[0], 0, 3),
        ("cut", 0, 2),
        archived,
    ]
    check(schedule, (f"sqlite:///{tmp_path / 'plain.db'}", database))
    with open_store(database) as store, store.read() as connection:
        for table, rows in ((tables.observations, 0), (tables.claims, 0), (tables.archive, 3)):
            assert connection.scalar(select(func.count()).select_from(table)) == rows


def test_latencies_become_one_sketch_a_tier() -> None:
    rows = [
        {"tier": "cluster", "window": 0, "server": str(at), "latency": [0, 1, 5, at + 1]}
        for at in range(3)
    ]
    defaults = {column.name: None for column in tables.observations.columns}
    packed = archive.pack({"observations": [{**defaults, **row} for row in rows], "claims": []})
    found = archive.unpack(packed, CLUSTER, TOPIC, 0)["observations"]
    assert [row["latency"] for row in found] == [[0, 3, 5, 6], [], []]
    assert [row["server"] for row in found] == ["0", "1", "2"]


def test_a_position_is_no_cell() -> None:
    """Positions and reporters are never archived."""
    with open_store("sqlite://") as store, store.write() as connection:
        positions.add_positions(connection, CLUSTER, [Position(TOPIC, 0)])
        assert collapse(connection, CLUSTER, [Changed(1, TOPIC, 0)], 1) == 0
