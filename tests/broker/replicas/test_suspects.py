"""Who reports that the process of another broker is gone, when, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tallymark.broker.replicas import suspects
from tallymark.broker.replicas.suspects import FollowerConnections, SuspectReports
from tallymark.coordination.cluster.suspicion import AGAIN_MS
from tallymark.replication.model import BrokerView
from tallymark.testing.memory_connections import MemoryConnections

ME = 1


async def silent(request: Any) -> Any:
    raise AssertionError(request)


class Broker:
    """The reports of broker 1; brokers 2 and 3 are registered."""

    def __init__(self) -> None:
        self.connections = MemoryConnections({2: silent, 3: silent})
        self.reported: list[tuple[int, int]] = []
        self.now_ms = 0
        self.looks = 0
        self.suspects = SuspectReports(ME, self.connections, self._report, lambda: self.now_ms)
        self.register({one: 10 * one for one in (1, 2, 3)})

    def register(self, epochs: dict[int, int]) -> None:
        self.suspects.brokers_changed({one: BrokerView(one, at) for one, at in epochs.items()})

    async def _report(self, broker: int, epoch: int) -> None:
        self.reported.append((broker, epoch))


def run(work: Callable[[Broker], Awaitable[None]]) -> Broker:
    async def with_broker() -> Broker:
        broker = Broker()
        await work(broker)
        await settled()
        await broker.suspects.stop()
        return broker

    return asyncio.run(with_broker())


async def settled() -> None:
    """All tasks but this one have ended."""
    me = asyncio.current_task()
    while others := asyncio.all_tasks() - {me}:
        await asyncio.wait(others)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "LOOKS_SECONDS", (0.0, 0.001, 0.002))


def test_what_is_refused_is_reported_with_its_registration_once_in_a_while() -> None:
    async def work(broker: Broker) -> None:
        for _ in range(100):
            broker.suspects.refused(2)
        await settled()
        assert broker.reported == [(2, 20)]
        broker.now_ms = AGAIN_MS
        broker.suspects.refused(2)

    assert run(work).reported == [(2, 20), (2, 20)]


def test_a_connection_that_breaks_is_reported_where_a_new_one_is_refused() -> None:
    async def work(broker: Broker) -> None:
        broker.connections.refusing.add(3)
        for one in (2, 3):
            broker.suspects.lost(one)

    assert run(work).reported == [(3, 30)]


def test_a_listener_that_is_closed_last_is_found_by_a_later_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that is killed closes its files one after the other: a connection may be gone while
    the listener still takes the next one."""

    async def work(broker: Broker) -> None:
        tries = 0
        is_refused = broker.connections.is_refused

        async def later(broker_id: int) -> bool:
            nonlocal tries
            tries += 1
            if tries == 2:
                broker.connections.refusing.add(broker_id)
            return await is_refused(broker_id)

        monkeypatch.setattr(broker.connections, "is_refused", later)
        broker.suspects.lost(2)
        broker.suspects.lost(2)
        await settled()
        assert tries == 2, "one task looks"

    assert run(work).reported == [(2, 20)]


def test_who_is_not_registered_is_not_reported() -> None:
    """A broker that stopped in order is gone, too; there is nothing left to take from it. An older
    release has no epoch: a report could not say which process it means."""

    async def work(broker: Broker) -> None:
        broker.register({1: 10, 3: -1})
        for one in (1, 2, 3, 9):
            broker.connections.refusing.add(one)
            broker.suspects.refused(one)
            broker.suspects.lost(one)

    assert run(work).reported == []


def test_nothing_is_reported_after_the_stop() -> None:
    async def work(broker: Broker) -> None:
        broker.connections.refusing.add(2)
        broker.suspects.lost(2)
        await broker.suspects.stop()
        broker.suspects.refused(2)
        broker.suspects.lost(3)

    assert run(work).reported == []


class Connection:
    closed = False


def test_a_followers_connection_that_ends_is_told_once() -> None:
    connections, lost = FollowerConnections(), list[int]()
    connections.lost = lost.append
    of_two, of_a_client, late = Connection(), Connection(), Connection()
    for _ in range(3):
        connections.fetched(of_two, 2)  # type: ignore[arg-type]
    late.closed = True
    connections.fetched(late, 3)  # type: ignore[arg-type]
    for one in (of_a_client, of_two, of_two, late):
        connections.closed(one)  # type: ignore[arg-type]
    assert lost == [2]
