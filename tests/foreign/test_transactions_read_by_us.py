"""Transactions of confluent-kafka and the Java client on Apache Kafka: two producers and a plain
one in turns, committed and aborted; whichever way we read, it is exactly what was committed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import pytest
from broker_kinds import new_topic
from confluent_kafka import Producer as Confluent
from eventually import eventually
from foreign_clients import java
from foreign_clients.rows import SECONDS

from tallymark.client import Admin, ConsumerConnector, SimpleConsumer
from tallymark.client.consuming.stream import Stream
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.process, pytest.mark.apache_kafka]

PARTITIONS: Final = 2
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
Values: TypeAlias = list[list[str]]
"""Of each partition, in the order of the log."""


class Writer:
    """A producer of confluent-kafka; the Java one (``Transactions.java``) works alike."""

    def __init__(self, servers: str, topic: str, name: str, transactional: bool) -> None:
        config: dict[str, Any] = {"bootstrap.servers": servers, "linger.ms": 0}
        if transactional:
            config["transactional.id"] = f"{topic}-{name}"
        self._producer, self._topic, self._name = Confluent(config), topic, name
        self._transactional, self._open = transactional, False
        self._pending: list[str] = []
        self.aborted: set[str] = set()
        if transactional:
            self._producer.init_transactions(SECONDS)

    def step(self, number: int, chance: random.Random, into: Values) -> None:
        """Some records, in the log when this returns; then maybe the end of the transaction."""
        if self._transactional and not self._open:
            self._producer.begin_transaction()
            self._open = True
        for each in range(chance.randint(1, 4)):
            value, partition = f"{self._name}-{number}-{each}", chance.randrange(PARTITIONS)
            self._producer.produce(self._topic, value.encode(), partition=partition)
            into[partition].append(value)
            self._pending.append(value)
        assert self._producer.flush(SECONDS) == 0
        if chance.random() < 0.3:
            self.end(chance.random() < 0.5)

    def end(self, well: bool) -> None:
        if self._open and well:
            self._producer.commit_transaction(SECONDS)
        elif self._open:
            self._producer.abort_transaction(SECONDS)
            self.aborted.update(self._pending)
        self._open = False
        self._pending.clear()


def by_confluent(servers: str, topic: str) -> dict[str, Values]:
    chance = random.Random(topic)
    written: Values = [[] for _ in range(PARTITIONS)]
    writers = [Writer(servers, topic, name, name != "plain") for name in ("a", "b", "plain")]
    for number in range(150):
        chance.choice(writers).step(number, chance, written)
    aborted: set[str] = set()
    for writer in writers:
        writer.end(well=True)
        aborted |= writer.aborted
    committed = [[value for value in values if value not in aborted] for values in written]
    return {"all": written, "committed": committed}


def by_java(servers: str, topic: str) -> dict[str, Values]:
    return java.write_transactions("4.1.0", servers, topic, seed=7)


# -- our readers ------------------------------------------------------------------------------


def by_requests(servers: str, topic: str, isolation: Isolation, count: int) -> Values:
    """From every place where a fetch ends; few bytes each, so that it begins amid transactions."""
    found: Values = []
    with SimpleConsumer(bootstrap_servers=servers, isolation=isolation) as consumer:
        for partition, end in sorted(consumer.end_offsets(topic).items()):
            found.append([])
            at = 0
            while at < end:
                fetched = consumer.fetch(topic, partition, at, max_bytes=600)
                values = [(message.value or b"").decode() for message in fetched]
                assert [(value or b"").decode() for value in fetched.values()] == values
                found[-1] += values
                assert fetched.next_offset > at
                at = fetched.next_offset
    return found


def by_stream(servers: str, topic: str, isolation: Isolation, count: int) -> Values:
    found: Values = [[] for _ in range(PARTITIONS)]
    with stream_of(servers, topic, isolation) as stream:
        for _, message in zip(range(count), stream, strict=False):
            found[message.partition].append((message.value or b"").decode())
        assert stream.poll(0.3) == []
    return found


def by_batches(servers: str, topic: str, isolation: Isolation, count: int) -> Values:
    found: Values = [[] for _ in range(PARTITIONS)]
    with stream_of(servers, topic, isolation) as stream:
        for batch in stream.batches():
            found[batch.partition] += [(value or b"").decode() for value in batch.values()]
            if sum(map(len, found)) >= count:
                break
        assert stream.poll(0.3) == []
    return found


@contextmanager
def stream_of(servers: str, topic: str, isolation: Isolation) -> Iterator[Stream]:
    with ConsumerConnector(
        bootstrap_servers=servers,
        group=new_topic("readers"),
        isolation=isolation,
        consumer_timeout_ms=SECONDS * 1000,
        fetch_max_bytes=600,
    ) as connector:
        yield connector.create_message_streams({topic: 1})[topic][0]


WRITERS: Final = {"confluent": by_confluent, "java": by_java}
READERS: Final[dict[str, Callable[[str, str, Isolation, int], Values]]] = {
    "requests": by_requests,
    "stream": by_stream,
    "batches": by_batches,
}


@pytest.fixture(scope="module", params=WRITERS)
def written(
    request: pytest.FixtureRequest, apache_kafka: ApacheKafkaServer
) -> tuple[str, dict[str, Values]]:
    """A topic, and what is in it."""
    topic, servers = new_topic("transactions"), apache_kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    values = WRITERS[request.param](servers, topic)
    # Their commits return before all markers are written: the last one was not there to be read.
    with (
        SimpleConsumer(bootstrap_servers=servers, isolation="read_committed") as committed,
        SimpleConsumer(bootstrap_servers=servers) as every,
    ):
        eventually(lambda: committed.end_offsets(topic) == every.end_offsets(topic))
    return topic, values


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("isolation", "expected"), [("read_committed", "committed"), ("read_uncommitted", "all")]
)
def test_exactly_what_was_committed(
    apache_kafka: ApacheKafkaServer,
    written: tuple[str, dict[str, Values]],
    reader: str,
    isolation: Isolation,
    expected: str,
) -> None:
    topic, values = written
    assert 0 < sum(map(len, values["committed"])) < sum(map(len, values["all"]))
    wanted = values[expected]
    count = sum(map(len, wanted))
    found = READERS[reader](apache_kafka.bootstrap_servers, topic, isolation, count)
    assert found == wanted
