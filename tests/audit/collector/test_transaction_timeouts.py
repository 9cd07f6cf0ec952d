"""The timeout of a transaction is what the coordinator of its transactional id knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from eventually import eventually

from tallymark.client import Admin, Producer
from tallymark.testing.memory_broker import MemoryBroker
from tallymark_audit.collector.transaction_timeouts import ASK_MS, TransactionTimeouts, ask

pytestmark = pytest.mark.socket


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as running:
        yield running


def opened(servers: str) -> Admin:
    return Admin(bootstrap_servers=servers, request_timeout_ms=5_000)


def counted(servers: str, asked: list[int]) -> Callable[[], Admin]:
    """Opens an admin; ``asked`` gets a number each time."""

    def admin() -> Admin:
        asked.append(len(asked))
        return opened(servers)

    return admin


def producer_of(servers: str, timeout_ms: int) -> int:
    """Its id; it leaves nothing open, as the coordinator of a transaction that hangs says."""
    name = f"of-{timeout_ms}"
    with (
        Producer(
            bootstrap_servers=servers, transactional_id=name, transaction_timeout_ms=timeout_ms
        ) as producer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        producer.init_transactions()
        return admin.describe_transactions([name])[name].producer_id


def test_the_coordinator_is_asked_by_the_producers_id(broker: MemoryBroker) -> None:
    servers = broker.bootstrap_servers
    first, second = producer_of(servers, 7_000), producer_of(servers, 9_000)
    assert ask(lambda: opened(servers), second) == {second: 9_000}
    assert ask(lambda: opened(servers), first) == {first: 7_000}
    assert ask(lambda: opened(servers), second + 1_000) == {}


def test_it_is_known_some_time_after_it_was_asked_for(broker: MemoryBroker) -> None:
    servers = broker.bootstrap_servers
    producer = producer_of(servers, 7_000)
    asked: list[int] = []
    timeouts = TransactionTimeouts(counted(servers, asked))
    assert timeouts.of(producer, 1) == 0
    eventually(lambda: timeouts.of(producer, 2) == 7_000)
    assert len(asked) == 1
    assert timeouts.of(producer, 3) == 0, "the position has it; another partition asks anew"
    eventually(lambda: timeouts.of(producer, 4) == 7_000)


def test_what_was_found_of_one_producer_stays_while_another_is_asked_about(
    broker: MemoryBroker,
) -> None:
    """It was forgotten: two producers that hung at the same time were each asked about anew, a
    minute later, and a hanging one was an alert a minute late."""
    servers = broker.bootstrap_servers
    first, second = producer_of(servers, 7_000), producer_of(servers, 9_000)
    asked: list[int] = []
    timeouts = TransactionTimeouts(counted(servers, asked))
    assert timeouts.of(first, 1) == 0
    eventually(lambda: timeouts.of(second, 2) == 9_000)
    assert timeouts.of(first, 3) == 7_000
    assert len(asked) == 2


def test_where_nothing_is_said_it_is_asked_again_after_a_while(broker: MemoryBroker) -> None:
    """A cluster that is away, or does not let us see the id, is not asked each round."""
    servers = broker.bootstrap_servers
    broker.stop()
    asked: list[int] = []
    timeouts = TransactionTimeouts(counted(servers, asked))
    assert timeouts.of(5, 0) == 0
    eventually(lambda: asked == [0])
    assert timeouts.of(5, ASK_MS - 1) == 0
    assert asked == [0]
    eventually(lambda: timeouts.of(5, ASK_MS) == 0 and asked == [0, 1], seconds=60)
