"""Counting that waits for an open transaction says for which, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.open_transactions import SOON_MS
from tallymark_audit.model.open_transaction import CHECK_MS, OpenTransaction
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.open_transactions import open_transactions
from tallymark_audit.testing import MemoryCluster, MemoryLog, stamped

W = 1000


class Bench:
    """A collector of a cluster in memory; a second passes whenever it looks at the time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.timeouts: dict[int, int] = {}
        """What coordinators say: producer id -> timeout, ms."""
        self.cluster = MemoryCluster()
        self.now = 1_000_000
        self.start()

    def start(self) -> None:
        made = CollectorSettings("dc1", W, max_wait_ms=0)
        self.collector = Collector(
            self.store,
            self.cluster,
            made,
            "x",
            self.tick,
            timeout_of=lambda producer, _: self.timeouts.get(producer, 0),
        )
        self.collector.start()

    def tick(self) -> int:
        self.now += 1000
        return self.now

    @property
    def log(self) -> MemoryLog:
        return self.cluster.log()

    def look(self, rounds: int = 10) -> tuple[OpenTransaction, ...]:
        for _ in range(rounds):
            self.collector.step()
        with self.store.read() as connection:
            return open_transactions(connection, "dc1", "t")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield Bench(store)


@pytest.fixture
def stored(database: str) -> Iterator[Bench]:
    """On each kind of database."""
    with open_store(database) as store:
        yield Bench(store)


def test_what_counting_waits_for_has_its_producer_and_offset(bench: Bench) -> None:
    bench.log.append(stamped(0, 5))
    bench.look()
    before = bench.now
    bench.log.append(stamped(5, 5), producer=4711)
    bench.log.append(stamped(0, 5, instance=b"another!"))
    (found,) = bench.look()
    assert (found.topic, found.partition, found.offset, found.producer) == ("t", 0, 5, 4711)
    assert before < found.since <= bench.now - SOON_MS
    assert found.through <= before + 2000


def test_the_oldest_of_several_is_named_and_then_the_next_one(bench: Bench) -> None:
    bench.log.append(stamped(0, 5), producer=7)
    bench.log.append(stamped(5, 5), producer=8)
    bench.log.append(stamped(10, 5), producer=7)
    (found,) = bench.look()
    assert (found.offset, found.producer) == (0, 7)
    bench.log.end_transaction(7, commit=True)
    ended = bench.now
    (found,) = bench.look()
    assert (found.offset, found.producer) == (5, 8)
    assert found.since > ended


@pytest.mark.parametrize("commit", [True, False])
def test_nothing_is_waited_for_when_it_has_ended(bench: Bench, commit: bool) -> None:
    bench.log.append(stamped(0, 5), producer=7)
    assert bench.look()
    bench.log.end_transaction(7, commit)
    assert bench.look() == ()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The isolation of every fetch."""
    found: list[Any] = []
    fetch = MemoryCluster.multifetch

    def noted(cluster: MemoryCluster, specs: Any, **how: Any) -> Any:
        found.append(how.get("isolation"))
        return fetch(cluster, specs, **how)

    monkeypatch.setattr(MemoryCluster, "multifetch", noted)
    return found


def test_transactions_that_end_soon_are_not_looked_at(bench: Bench, asked: list[Any]) -> None:
    """Each would cost a fetch."""
    for number in range(10):
        bench.log.append(stamped(number, 1), producer=7)
        assert bench.look(rounds=1) == ()
        bench.log.end_transaction(7, commit=True)
    assert set(asked) == {None}


def test_a_transaction_that_lasts_is_looked_at_once(bench: Bench, asked: list[Any]) -> None:
    bench.log.append(stamped(0, 5), producer=7)
    bench.look(rounds=30)
    assert asked.count("read_uncommitted") == 1


def test_a_collector_that_starts_again_knows_since_when(bench: Bench) -> None:
    bench.log.append(stamped(0, 5), producer=7)
    (found,) = bench.look()
    bench.start()
    (again,) = bench.look()
    assert (again.since, again.producer) == (found.since, 7)


def test_the_timeout_that_its_coordinator_knows_says_when_it_hangs(stored: Bench) -> None:
    """It was found after ``audit.hanging_transaction_ms`` only, 20 minutes, though its coordinator
    ends it after one."""
    stored.log.append(stamped(0, 5), producer=7)
    (found,) = stored.look()
    assert found.timeout == 0
    assert not found.hangs(found.since + 1_200_000, 1_200_000)
    assert found.hangs(found.since + 1_200_001, 1_200_000)
    stored.timeouts[7] = 60_000
    (found,) = stored.look()
    assert found.timeout == 60_000
    assert not found.hangs(found.since + 60_000 + CHECK_MS, 1_200_000)
    assert found.hangs(found.since + 60_001 + CHECK_MS, 1_200_000)
    stored.timeouts.clear()
    stored.start()
    assert stored.look() == (found,), "it is stored"


def test_the_next_transaction_has_a_timeout_of_its_own(bench: Bench) -> None:
    bench.timeouts = {7: 60_000}
    bench.log.append(stamped(0, 5), producer=7)
    bench.log.append(stamped(5, 5), producer=8)
    assert [one.timeout for one in bench.look()] == [60_000]
    bench.log.end_transaction(7, commit=True)
    assert [(one.producer, one.timeout) for one in bench.look()] == [(8, 0)]
