"""Transactions on our broker and on Apache Kafka's: what is committed is read, what is aborted is
not."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker, new_topic
from older_protocol import use_the_older_protocol

from tallymark.client.admin.admin import Admin
from tallymark.client.aio.producer import AsyncProducer
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.isolation import Isolation
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import (
    LocalProtocolError,
    TransactionError,
    TransactionFatalError,
)

_ids = itertools.count()


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("broker"), num_partitions=1)


def new_id() -> str:
    return f"copier-{next(_ids)}"


@pytest.fixture(params=["TV2", "TV1"])
def producer(request: pytest.FixtureRequest, broker: AnyBroker) -> Iterator[Producer]:
    """Of both protocols: a client that does not see the feature uses the older one."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=new_id()) as one:
        if request.param == "TV1":
            use_the_older_protocol(one)
        one.init_transactions()
        yield one


def read(broker: AnyBroker, topic: str, isolation: Isolation = "read_committed") -> list[Any]:
    found: list[Any] = []
    with SimpleConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        end = consumer.end_offsets(topic)[0]
        position = 0
        while position < end:
            fetched = consumer.fetch(topic, 0, position, isolation=isolation)
            found += [message.value for message in fetched]
            position = max(fetched.next_offset, position)
    return found


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    producer: Producer, broker: AnyBroker
) -> None:
    topic = new_topic("txn")
    for round_ in range(3):
        with producer.transaction():
            producer.send(topic, b"good-%d" % round_)
        producer.begin_transaction()
        producer.send(topic, b"bad-%d" % round_)
        producer.flush()
        producer.abort_transaction()
    assert read(broker, topic) == [b"good-0", b"good-1", b"good-2"]
    assert len(read(broker, topic, "read_uncommitted")) == 6


def test_an_exception_in_the_block_aborts(producer: Producer, broker: AnyBroker) -> None:
    topic = new_topic("txn")
    with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
        producer.send(topic, b"half")
        raise ZeroDivisionError
    with producer.transaction():
        producer.send(topic, b"whole")
    assert read(broker, topic) == [b"whole"]


def test_a_transaction_without_records_ends_at_once(producer: Producer) -> None:
    for _ in range(2):
        with producer.transaction():
            pass
        producer.begin_transaction()
        producer.abort_transaction()


def test_a_second_producer_fences_the_first(producer: Producer, broker: AnyBroker) -> None:
    topic = new_topic("txn")
    producer.begin_transaction()
    producer.send(topic, b"of the first")
    producer.flush()
    name = producer._settings.transactional_id
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id=name) as second:
        second.init_transactions()
        producer.send(topic, b"of a zombie")
        with pytest.raises(TransactionError):
            producer.commit_transaction()
        with pytest.raises(TransactionFatalError):
            producer.abort_transaction()
        with pytest.raises(TransactionFatalError):
            producer.begin_transaction()
        with second.transaction():
            second.send(topic, b"of the second")
    assert read(broker, topic) == [b"of the second"]


def test_offsets_move_with_the_commit_and_only_then(producer: Producer, broker: AnyBroker) -> None:
    source, group = new_topic("txn"), new_topic("group")
    servers = broker.bootstrap_servers
    with producer.transaction():
        producer.send(source, b"0")
        producer.send_offsets_to_transaction({(source, 0): 1}, group)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({(source, 0): 9}, group)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(source, b"1")
    with Admin(bootstrap_servers=servers) as admin:
        stored = admin.group_offsets(group)
    assert stored[source, 0].offset == 1


def test_a_coroutine_commits_and_aborts(broker: AnyBroker) -> None:
    topic = new_topic("txn")

    async def work() -> None:
        servers = broker.bootstrap_servers
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=new_id()) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"good")
                await producer.send_many(topic, [b"and", b"many"])
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with producer.transaction():
                    await producer.send(topic, b"bad")
                    raise ZeroDivisionError
            with pytest.raises(LocalProtocolError, match="begin_transaction"):
                await producer.send(topic, b"outside")

    asyncio.run(work())
    assert read(broker, topic) == [b"good", b"and", b"many"]


def test_a_closed_producer_has_aborted_what_was_open(broker: AnyBroker) -> None:
    topic = new_topic("txn")
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=new_id()) as one:
        one.init_transactions()
        one.begin_transaction()
        one.send(topic, b"open")
        one.flush()
    assert read(broker, topic) == []


def test_many_partitions_and_large_transactions(producer: Producer, broker: AnyBroker) -> None:
    topic = new_topic("txn")
    for round_ in range(3):
        with producer.transaction():
            producer.send_many(
                topic, [b"%d" % n for n in range(round_ * 5000, 5000 * round_ + 5000)]
            )
    assert [int(value) for value in read(broker, topic)] == list(range(15000))
