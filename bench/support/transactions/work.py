"""What transactions cost: at a broker or a cluster of three, ours or Apache Kafka's.

Clients run in this process; processor time is that of the brokers alone, read from ``/proc``.
Commits, latencies and copies are made with our client, which speaks the newer protocol (TV2) to
both; the rates of producing with librdkafka, which has the older one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import quantiles
from typing import Final, Protocol

from confluent_kafka import Producer as Confluent

from tallymark import ConsumerConnector, Producer, SimpleConsumer
from tallymark.client import Admin
from tallymark.client.reading.isolation import Isolation
from tallymark.copying import Copier, to_topic

Found = dict[str, float]
_DELETED_SECONDS: Final = 3
"""Until brokers have removed the files of a topic."""
_SECONDS: Final = 60.0
_VALUE: Final = b"." * 1000


class Place(Protocol):
    """Where it is measured: one broker, or three."""

    @property
    def bootstrap_servers(self) -> str: ...

    def cpu(self) -> float:
        """Seconds that the brokers have used so far."""
        ...


def create(place: Place, replicas: int, name: str) -> str:
    """A new topic of one partition."""
    topic = f"{name}-{time.monotonic_ns()}"
    least = {"min.insync.replicas": str(min(2, replicas)), "file.delete.delay.ms": "100"}
    with Admin(bootstrap_servers=place.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, least, replication_factor=replicas)
    return topic


@contextmanager
def metered(place: Place, found: Found) -> Iterator[None]:
    """Seconds, and seconds of processors, of the block."""
    cpu, began = place.cpu(), time.monotonic()
    yield
    found["seconds"] = time.monotonic() - began
    found["cpu_seconds"] = max(place.cpu() - cpu, 0.01)


def produce(place: Place, replicas: int, seconds: float, commit_every: float | None) -> Found:
    """1,000 bytes each, idempotent; or in transactions that are committed ``commit_every`` seconds
    after they began, as by ``kafka-producer-perf-test --transaction-duration-ms``."""
    topic = create(place, replicas, "produce")
    config: dict[str, str | int] = {
        "bootstrap.servers": place.bootstrap_servers,
        "enable.idempotence": "true",
        "linger.ms": 5,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 100_000,
    }
    if commit_every is not None:
        config["transactional.id"] = topic
    producer = Confluent(config)
    found: Found = {"messages": 0}
    if commit_every is not None:
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
    with metered(place, found):
        end = time.monotonic() + seconds
        due = time.monotonic() + (commit_every or seconds + 1)
        while (now := time.monotonic()) < end:
            for _ in range(100):
                _put(producer, topic)
            found["messages"] += 100
            if now >= due and commit_every is not None:
                producer.commit_transaction(_SECONDS)
                producer.begin_transaction()
                due = time.monotonic() + commit_every
        if commit_every is not None:
            producer.commit_transaction(_SECONDS)
        producer.flush(_SECONDS)
    _delete(place, topic)
    return found


def _delete(place: Place, topic: str) -> None:
    """Gigabytes: what comes next would find the machine's memory full of files, which halved the
    rate of whatever that was."""
    with Admin(bootstrap_servers=place.bootstrap_servers) as admin:
        admin.delete_topic(topic)
    time.sleep(_DELETED_SECONDS)


def _put(producer: Confluent, topic: str) -> None:
    while True:
        try:
            producer.produce(topic, _VALUE)
            return
        except BufferError:
            producer.poll(0.01)


def small_transactions(place: Place, replicas: int, seconds: float) -> Found:
    """Begin, one record, commit, one after the other: milliseconds of each, p50 and p99."""
    topic = create(place, replicas, "small")
    found: Found = {}
    times: list[float] = []
    with Producer(
        bootstrap_servers=place.bootstrap_servers, transactional_id=topic, linger_ms=0
    ) as producer:
        producer.init_transactions()
        for _ in range(20):  # connections, and Java's compiler
            _one(producer, topic)
        with metered(place, found):
            end = time.monotonic() + seconds
            while (began := time.monotonic()) < end:
                _one(producer, topic)
                times.append((time.monotonic() - began) * 1000)
    cuts = quantiles(times, n=100)
    return {**found, "messages": len(times), "p50_ms": cuts[49], "p99_ms": cuts[98]}


def _one(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.send(topic, b"x")
    producer.commit_transaction()


def copy(place: Place, replicas: int, count: int) -> Found:
    """Consume, transform, produce: ``count`` messages of 1,000 bytes, 750 a transaction."""
    source, target = create(place, replicas, "source"), create(place, replicas, "target")
    servers = place.bootstrap_servers
    fill(place, source, count)
    found: Found = {"messages": 0}
    with (
        ConsumerConnector(
            group=source,
            bootstrap_servers=servers,
            enable_auto_commit=False,
            isolation="read_committed",
        ) as consumer,
        Producer(bootstrap_servers=servers, transactional_id=source, linger_ms=0) as producer,
    ):
        copier = Copier(consumer, producer, source, to_topic(target))
        while not found["messages"]:
            found["messages"] = copier.step()
        first = found["messages"]
        with metered(place, found):
            while found["messages"] < count:
                found["messages"] += copier.step()
    found["messages"] -= first
    return found


def fill(place: Place, topic: str, count: int) -> None:
    """Messages without a transaction."""
    with Producer(bootstrap_servers=place.bootstrap_servers, audit=False) as producer:
        for first in range(0, count, 1000):
            producer.send_many(topic, [_VALUE] * min(1000, count - first))
        producer.flush(_SECONDS)


def read(place: Place, topic: str, isolation: Isolation, rounds: int) -> Found:
    """The whole topic, as columns, so many times."""
    found: Found = {"messages": 0}
    with SimpleConsumer(bootstrap_servers=place.bootstrap_servers, isolation=isolation) as consumer:
        end = consumer.end_offsets(topic)[0]
        with metered(place, found):
            for _ in range(rounds):
                position = 0
                while position < end:
                    fetched = consumer.fetch(topic, 0, position, max_bytes=4 << 20)
                    found["messages"] += len(fetched.values())
                    position = fetched.next_offset
    return found


def committed_topic(place: Place, count: int) -> str:
    """Messages in transactions of 750, all committed."""
    topic = create(place, 1, "committed")
    with Producer(
        bootstrap_servers=place.bootstrap_servers, transactional_id=topic, linger_ms=0
    ) as producer:
        producer.init_transactions()
        for first in range(0, count, 750):
            with producer.transaction():
                producer.send_many(topic, [_VALUE] * min(750, count - first))
    return topic


def fetches_behind_aborts(place: Place, counts: list[int], fetches: int) -> dict[int, Found]:
    """Milliseconds of a fetch of committed records at the end of a log with so many aborted
    transactions before it: by their count, p50 and p99."""
    topic = create(place, 1, "aborted")
    servers = place.bootstrap_servers
    found: dict[int, Found] = {}
    aborted = 0
    with (
        Producer(bootstrap_servers=servers, transactional_id=topic, linger_ms=0) as producer,
        SimpleConsumer(bootstrap_servers=servers, isolation="read_committed") as consumer,
    ):
        producer.init_transactions()
        for count in counts:
            while aborted < count:
                producer.begin_transaction()
                producer.send(topic, b"x")
                producer.flush(_SECONDS)
                producer.abort_transaction()
                aborted += 1
            with producer.transaction():
                last = [producer.send(topic, _VALUE) for _ in range(100)]
            offset = last[0].result(_SECONDS).offset
            found[count] = timed(partial(consumer.fetch, topic, 0, offset), fetches)
    return found


def timed(fetch: Callable[[], object], fetches: int) -> Found:
    """Milliseconds of each call, p50 and p99."""
    times: list[float] = []
    for _ in range(fetches):
        began = time.monotonic()
        fetch()
        times.append((time.monotonic() - began) * 1000)
    cuts = quantiles(times, n=100)
    return {"p50_ms": cuts[49], "p99_ms": cuts[98]}
