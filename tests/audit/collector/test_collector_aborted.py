"""Transactions: what was aborted is no message, what is open is not counted yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counting_paths import counting_path as counting_path
from sqlalchemy import select

from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.sides import Observation, merge_observations
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import observation_from_row
from tallymark_audit.store.schema.tables import observations
from tallymark_audit.testing import MemoryCluster, MemoryLog, Told, stamped

W = 1000
A, B = b"instance", b"another!"
OURS = CellKey("t", 0, 0, "web", A.hex())


class Bench:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.cluster = MemoryCluster()
        self.now = 1_000_000
        made = CollectorSettings("dc1", W, max_wait_ms=0)
        self.collector = Collector(store, self.cluster, made, "x", self.tick)
        self.collector.start()

    def tick(self) -> int:
        self.now += 1000
        return self.now

    @property
    def log(self) -> MemoryLog:
        return self.cluster.log()

    def drain(self) -> dict[CellKey, Observation]:
        for _ in range(10):
            self.collector.step()
        with self.store.read() as connection:
            rows = connection.execute(select(observations)).mappings().all()
        return merge_observations(observation_from_row(row) for row in rows)

    def progress(self) -> Any:
        with self.store.read() as connection:
            (row,) = queries.all_progress(connection)
        return row


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield Bench(store)


def test_what_was_aborted_is_kept_apart(bench: Bench) -> None:
    bench.log.append(stamped(0, 5))
    bench.log.append(stamped(5, 5), producer=7)
    bench.log.append([Told(None, 3), *stamped(0, 2, instance=B)], producer=9)
    bench.log.append(stamped(10, 5), producer=7)
    bench.log.end_transaction(7, commit=False)
    bench.log.end_transaction(9, commit=True)
    bench.log.append(stamped(15, 5), producer=7)
    bench.log.end_transaction(7, commit=True)
    cells = bench.drain()
    ours = cells[OURS]
    assert (str(ours.ranges), str(ours.aborted), ours.count) == ("0-4, 15-19", "5-14", 10)
    assert cells[OURS._replace(instance=B.hex())].count == 2
    assert cells[CellKey("t", 0, 0, "", "")].count == 1
    assert bench.collector.counters.aborted == 10
    assert bench.collector.counters.records == 13


def test_a_cell_may_hold_nothing_but_what_was_aborted(bench: Bench) -> None:
    bench.log.append([*stamped(0, 3), Told(None, 3), Told(b"junk", 3)], producer=7)
    bench.log.end_transaction(7, commit=False)
    seen = bench.drain()[OURS]
    assert (seen.count, str(seen.aborted), seen.ranges.size) == (0, "0-2", 0)


def test_an_open_transaction_holds_the_counting(bench: Bench) -> None:
    """Nobody knows yet whether what it holds, and what stands behind that, will be seen: until it
    ends the partition is not up to date, so no window of it is complete."""
    bench.log.append(stamped(0, 5))
    bench.drain()
    through = bench.progress()["counted_through"]
    bench.log.append(stamped(5, 5), producer=7)
    bench.log.append(stamped(0, 5, instance=B))
    cells = bench.drain()
    assert (cells[OURS].count, len(cells)) == (5, 1)
    assert bench.progress()["next_offset"] == 5
    assert bench.progress()["counted_through"] <= through + 2000
    bench.log.end_transaction(7, commit=True)
    cells = bench.drain()
    assert (cells[OURS].count, cells[OURS._replace(instance=B.hex())].count) == (10, 5)
    assert bench.progress()["counted_through"] > through + 2000


def test_a_cut_takes_back_what_was_aborted_too(bench: Bench) -> None:
    bench.log.append(stamped(0, 5))
    bench.log.append(stamped(5, 5), producer=7)
    bench.log.end_transaction(7, commit=False)
    bench.drain()
    bench.cluster.log().cut(1)
    bench.log.append(stamped(5, 3))
    seen = bench.drain()[OURS]
    assert (str(seen.ranges), str(seen.aborted)) == ("0-7", "")


def test_counting_again_keeps_what_was_aborted(bench: Bench) -> None:
    bench.log.append(stamped(0, 5))
    bench.log.append(stamped(5, 5), producer=7)
    bench.log.end_transaction(7, commit=False)
    bench.log.append(stamped(10, 5))
    bench.drain()
    bench.cluster.log().cut(3)
    bench.log.append(stamped(10, 1))
    seen = bench.drain()[OURS]
    assert (str(seen.ranges), str(seen.aborted), seen.count) == ("0-4, 10", "5-9", 6)
