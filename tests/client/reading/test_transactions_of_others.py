"""Real transactions, of confluent-kafka on Apache Kafka, read by our consumers. (Our broker has
none.)"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_kinds import new_topic
from confluent_kafka import Producer as Confluent

from tallymark.client import Admin, ConsumerConnector, Producer, SimpleConsumer
from tallymark.processes.apache_kafka import ApacheKafkaServer

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

SECONDS = 20.0


@pytest.fixture
def transactions(apache_kafka: ApacheKafkaServer) -> Iterator[Confluent]:
    """A producer that has begun no transaction yet."""
    producer = Confluent(
        {
            "bootstrap.servers": apache_kafka.bootstrap_servers,
            "transactional.id": new_topic("transactions"),
            "linger.ms": 0,
        }
    )
    producer.init_transactions(SECONDS)
    yield producer
    producer.purge()


def write(producer: Confluent, topic: str, *values: bytes, partition: int = 0) -> None:
    """In batches of one message."""
    for value in values:
        producer.produce(topic, value, partition=partition)
        assert producer.flush(SECONDS) == 0


def values(consumer: SimpleConsumer, topic: str, offset: int = 0) -> list[bytes | None]:
    """What a fetch has from an offset on."""
    return consumer.fetch(topic, 0, offset, max_wait_ms=100).values()


def test_what_was_aborted_is_read_by_who_wants_all(
    apache_kafka: ApacheKafkaServer, transactions: Confluent, topic: str
) -> None:
    """Offsets: a0 a1 commit, b0 b1 abort, plain, c0 commit: 0 1 (2) 3 4 (5) 6 7 (8)."""
    servers = apache_kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, 1)
    transactions.begin_transaction()
    write(transactions, topic, b"a0", b"a1")
    transactions.commit_transaction(SECONDS)
    transactions.begin_transaction()
    write(transactions, topic, b"b0", b"b1")
    transactions.abort_transaction(SECONDS)
    with Producer(bootstrap_servers=servers, audit=False) as plain:
        assert plain.send(topic, b"plain").result(SECONDS).offset == 6
    transactions.begin_transaction()
    write(transactions, topic, b"c0")
    transactions.commit_transaction(SECONDS)
    with SimpleConsumer(bootstrap_servers=servers) as all_of_it:
        assert values(all_of_it, topic) == [b"a0", b"a1", b"b0", b"b1", b"plain", b"c0"]
        assert all_of_it.end_offsets(topic) == {0: 9}
    with SimpleConsumer(bootstrap_servers=servers, isolation="read_committed") as committed:
        fetched = committed.fetch(topic, 0, 0)
        assert fetched.values() == [b"a0", b"a1", b"plain", b"c0"]
        assert list(fetched.offsets) == [0, 1, 6, 7]
        assert [record.value for record in fetched.records()] == fetched.values()
        assert [message.value for message in fetched] == fetched.values()
        assert fetched.next_offset == 9
        # In the middle of what was aborted, and behind all.
        assert values(committed, topic, 4) == [b"plain", b"c0"]
        assert values(committed, topic, 9) == []


def test_an_open_transaction_hides_what_comes_after_it(
    apache_kafka: ApacheKafkaServer, transactions: Confluent, topic: str
) -> None:
    servers = apache_kafka.bootstrap_servers
    with (
        Producer(bootstrap_servers=servers, audit=False) as plain,
        SimpleConsumer(bootstrap_servers=servers) as all_of_it,
        SimpleConsumer(bootstrap_servers=servers, isolation="read_committed") as committed,
    ):
        plain.send(topic, b"before", partition=0).result(SECONDS)
        transactions.begin_transaction()
        write(transactions, topic, b"open")
        plain.send(topic, b"after", partition=0).result(SECONDS)
        assert values(all_of_it, topic) == [b"before", b"open", b"after"]
        assert values(committed, topic) == [b"before"]
        assert committed.get_offsets_before(topic, 0, -1) == [1]
        assert all_of_it.get_offsets_before(topic, 0, -1) == [3]
        assert committed.fetch(topic, 0, 0, isolation="read_uncommitted").next_offset == 3
        transactions.commit_transaction(SECONDS)
        assert values(committed, topic, 1) == [b"open", b"after"]
        assert committed.get_offsets_before(topic, 0, -1) == [4]


def test_a_connector_hands_out_what_was_committed(
    apache_kafka: ApacheKafkaServer, transactions: Confluent, topic: str
) -> None:
    """Aborted and committed transactions over two partitions, in turns, many batches."""
    servers = apache_kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, 2)
    kept: list[bytes] = []
    for number in range(12):
        transactions.begin_transaction()
        some = [b"%d-%d" % (number, n) for n in range(4)]
        for n, value in enumerate(some):
            transactions.produce(topic, value, partition=n % 2)
        if number % 3 == 1:
            assert transactions.flush(SECONDS) == 0  # or there would be nothing to abort
            transactions.abort_transaction(SECONDS)
        else:
            transactions.commit_transaction(SECONDS)
            kept += some
    with ConsumerConnector(
        bootstrap_servers=servers, group=f"readers-of-{topic}", isolation="read_committed"
    ) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]
        found = [message.value or b"" for _, message in zip(kept, stream, strict=False)]
        assert stream.poll(0.3) == []
        consumer.commit_offsets()
    assert sorted(found) == sorted(kept)
    with Admin(bootstrap_servers=servers) as admin:
        ends = admin.list_offsets({(topic, 0): -1, (topic, 1): -1})
        stored = admin.group_offsets(f"readers-of-{topic}")
        for partition in (0, 1):
            # Behind the last marker, not the last message: the lag of a reader that is done is 0.
            assert stored[topic, partition].offset == ends[topic, partition].offset
