"""The audit of consumer groups against a broker: our connector's hook, and consumers of others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer

from tallymark.client import ConsumerConnector, Producer, SimpleConsumer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit import ConsumerAudit
from tallymark_audit.events.claim_book import ClaimBook, fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC

pytestmark = pytest.mark.process

COUNT = 300
BARE = 7


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(
        tmp_path_factory.mktemp("data"),
        num_partitions=2,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=500,
    ) as running:
        yield running.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """A topic with stamped messages and some without."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Producer(bootstrap_servers=servers, server="web", audit=False, stamp=True) as producer:
        for number in range(COUNT):
            producer.send(name, b"v%d" % number, key=b"k%d" % number)
    with Producer(bootstrap_servers=servers, audit=False) as producer:
        for number in range(BARE):
            producer.send(name, b"bare", key=b"k%d" % number)
    return name


def events(servers: str, group: str) -> list[AuditEvent]:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        found: list[AuditEvent] = []
        offset, end = 0, consumer.end_offsets(AUDIT_TOPIC)[0]
        while offset < end:
            fetched = consumer.fetch(AUDIT_TOPIC, 0, offset)
            found += [decode_event(one.value or b"") for one in fetched]
            offset = fetched.next_offset
    return [event for event in found if event.consumer_group == group]


def sums(book: ClaimBook, group: str) -> tuple[int, int, int]:
    """Distinct stamped messages a run, duplicates, unstamped ones; summed over runs."""
    claims = book.processed(group)
    return (
        sum(claim.acknowledged.size for claim in claims),
        sum(claim.duplicate_count for claim in claims),
        sum(claim.unstamped for claim in claims),
    )


def connector(servers: str, group: str, audit: ConsumerAudit, **more: Any) -> ConsumerConnector:
    return ConsumerConnector(group=group, bootstrap_servers=servers, hooks=[audit], **more)


def test_our_connector_counts_what_was_processed_not_what_was_fetched(
    servers: str, topic: str
) -> None:
    audit = ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000)
    consumer = connector(servers, topic, audit, enable_auto_commit=False)
    stream = consumer.create_message_streams({topic: 1})[topic][0]
    for _ in range(100):
        next(stream)
    consumer.commit_offsets()
    for _ in range(50):
        next(stream)  # of which nobody says that they are processed
    assert sum(sums(fold(events(servers, topic)), topic)[::2]) == 100, "told before it was stored"
    consumer.close()
    said = events(servers, topic)
    assert sum(sums(fold(said), topic)[::2]) == 100
    assert said[-1].closed
    assert sum(one.through_offset for one in said[-1].copied) == 100


def test_redelivery_after_a_restart_shows_as_duplicates(servers: str, topic: str) -> None:
    for commit in (False, True):
        audit = ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000)
        consumer = connector(servers, topic, audit)
        stream = consumer.create_message_streams({topic: 1})[topic][0]
        for _ in range(COUNT + BARE):
            next(stream)
        stream.poll()
        consumer.commit_offsets()
        if not commit:  # an operator sets the group back
            consumer.rewind(to="smallest")
            consumer.commit_offsets()
        consumer.close()
    assert sums(fold(events(servers, topic)), topic) == (2 * COUNT, 0, 2 * BARE)


def test_a_killed_consumer_never_says_that_it_is_complete(servers: str, topic: str) -> None:
    code = f"""
import os, signal
from tallymark.client import ConsumerConnector
from tallymark_audit import ConsumerAudit
audit = ConsumerAudit(group={topic!r}, bootstrap_servers={servers!r}, window_ms=1000)
consumer = ConsumerConnector(group={topic!r}, bootstrap_servers={servers!r}, hooks=[audit],
                             enable_auto_commit=False, session_timeout_ms=1500)
stream = consumer.create_message_streams({{{topic!r}: 1}})[{topic!r}][0]
for number in range(200):
    next(stream)
    if number == 99:
        consumer.commit_offsets()
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    said = events(servers, topic)
    assert not any(event.closed for event in said)
    assert sum(sums(fold(said), topic)[::2]) == 100
    audit = ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000)
    consumer = connector(servers, topic, audit, consumer_timeout_ms=30_000)
    stream = consumer.create_message_streams({topic: 1})[topic][0]
    for _ in range(COUNT + BARE - 100):
        next(stream)
    consumer.close()
    assert sums(fold(events(servers, topic)), topic) == (COUNT, 0, BARE), "the union is whole"


def test_kafka_python(servers: str, topic: str) -> None:
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000) as audit:
        for number in range(COUNT + BARE):
            message = next(consumer)
            audit.processed(message)
            if number == 0:
                audit.processed(message)  # as an application does that has forgotten
        assert audit.flush(30)
        consumer.commit()
    consumer.close()
    distinct, again, bare = sums(fold(events(servers, topic)), topic)
    assert (distinct, again + bare) == (COUNT, BARE + 1)


def test_confluent(servers: str, topic: str) -> None:
    config = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe([topic])
    with ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000) as audit:
        seen = 0
        while seen < COUNT + BARE:
            message = consumer.poll(30)
            assert message is not None
            audit.processed(message)
            seen += message.error() is None
    consumer.close()
    assert sums(fold(events(servers, topic)), topic) == (COUNT, 0, BARE)


def test_asyncio_with_many_messages_at_a_time(servers: str, topic: str) -> None:
    async def work(audit: ConsumerAudit) -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            messages: list[Any] = []
            while len(messages) < COUNT + BARE:
                for some in (await consumer.getmany(timeout_ms=1000)).values():
                    messages += some
            for message in messages:
                audit.fetched(message)

            async def one(message: Any, at: int) -> None:
                await asyncio.sleep(0.001 * (at % 7))
                audit.processed(message)

            await asyncio.gather(*(one(message, at) for at, message in enumerate(messages[1:])))
            assert await asyncio.to_thread(audit.flush, 30)
        finally:
            await consumer.stop()

    with ConsumerAudit(group=topic, bootstrap_servers=servers, window_ms=1000) as audit:
        asyncio.run(work(audit))
    said = events(servers, topic)
    distinct, again, bare = sums(fold(said), topic)
    assert (distinct + bare, again) == (COUNT + BARE - 1, 0)
    assert min(one.through_offset for one in said[-1].copied) == 0, "one message is not done"
