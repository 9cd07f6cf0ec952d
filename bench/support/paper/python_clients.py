"""The Python client of each product, as a process of its own: ``python python_clients.py JOB``.

Producers send one message at a time, as applications do, and end when the broker has accepted all.
Consumers read all messages, and check that no other one follows. Each imports its library itself:
a missing one concerns no other product.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.paper.message_queues import (
    activemq_consume,
    activemq_produce,
    rabbitmq_consume,
    rabbitmq_produce,
)
from support.paper.meter import PREFETCH, SURPLUS_SECONDS, Job, Meter, run_client
from support.paper.nats_client import nats_consume, nats_produce

_LINGER_MS: Final = 50
"""Long enough that batches are full on a busy machine, too."""
_PATIENCE: Final = 60.0


def tallymark_produce(job: Job, meter: Meter) -> None:
    """Our producer, with acks=1 like the other clients of Kafka's protocol, and without stamps."""
    from tallymark.client import Producer

    topic, value, size = job["topic"], b"x" * job["size"], job["size"]
    with Producer(
        bootstrap_servers=job["address"],
        acks=1,
        audit=False,
        stamp=False,
        batch_num_messages=job["batch"],
        linger_ms=0 if job["batch"] == 1 else _LINGER_MS,
    ) as producer:
        producer.send("warm", value).result(30)  # connected
        before = producer.metrics()["records_acknowledged"]
        meter.begin()
        send = producer.send
        for part in meter.parts():
            for _ in range(part):
                send(topic, value)
            meter.add(part, part * size)
        producer.flush(120)
        meter.end()
        accepted = producer.metrics()["records_acknowledged"] - before
    if accepted != job["count"]:
        raise RuntimeError(f"{accepted} messages were accepted")


def tallymark_consume(job: Job, meter: Meter) -> None:
    """Our SimpleConsumer: values of a fetch as a list."""
    from tallymark.client import SimpleConsumer

    offset, topic, most = 0, job["topic"], PREFETCH * job["size"]
    with SimpleConsumer(bootstrap_servers=job["address"]) as consumer:
        consumer.fetch(topic, 0, 0, max_bytes=1)  # connected
        meter.begin()
        while not meter.done:
            found = consumer.fetch(topic, 0, offset, max_bytes=most)
            values = found.values()
            meter.add(len(values), sum(map(len, values)))  # type: ignore[arg-type]  # no nulls
            offset = found.next_offset
        wait_ms = int(SURPLUS_SECONDS * 1000)
        surplus = consumer.fetch(topic, 0, offset, max_wait_ms=wait_ms).values()
        meter.add(len(surplus), 0)


def kafka_produce(job: Job, meter: Meter) -> None:
    """confluent-kafka: librdkafka beneath Python."""
    from confluent_kafka import Producer

    topic, value, size = job["topic"], b"x" * job["size"], job["size"]
    failures: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": job["address"],
            "acks": 1,
            "linger.ms": 0 if job["batch"] == 1 else _LINGER_MS,
            "batch.num.messages": job["batch"],
            "queue.buffering.max.messages": 50_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
        }
    )
    producer.list_topics(topic, 30)  # connected
    meter.begin()
    produce = producer.produce
    for part in meter.parts():
        for _ in range(part):
            while True:
                try:
                    produce(topic, value, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
        meter.add(part, part * size)
    left = producer.flush(120)
    meter.end()
    if left or failures:
        raise RuntimeError(f"{left} messages are left, {failures[:1]}")


def kafka_consume(job: Job, meter: Meter) -> None:
    """confluent-kafka, 1,000 messages a call."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": job["address"],
            "group.id": "paper",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": PREFETCH * job["size"],
        }
    )
    consumer.list_topics(job["topic"], 30)  # connected
    meter.begin()
    consumer.assign([TopicPartition(job["topic"], 0, OFFSET_BEGINNING)])
    ends = time.monotonic() + _PATIENCE
    while not meter.done and time.monotonic() < ends:
        messages = consumer.consume(PREFETCH, 0.2)
        if messages:
            meter.add(len(messages), sum(len(each.value() or b"") for each in messages))
            ends = time.monotonic() + _PATIENCE
    meter.add(len(consumer.consume(PREFETCH, SURPLUS_SECONDS)), 0)
    consumer.close()


CLIENTS: Final[dict[tuple[str, str], Callable[[Job, Meter], None]]] = {
    ("tallymark", "produce"): tallymark_produce,
    ("tallymark", "consume"): tallymark_consume,
    ("kafka", "produce"): kafka_produce,
    ("kafka", "consume"): kafka_consume,
    ("activemq", "produce"): activemq_produce,
    ("activemq", "consume"): activemq_consume,
    ("rabbitmq", "produce"): rabbitmq_produce,
    ("rabbitmq", "consume"): rabbitmq_consume,
    ("nats", "produce"): nats_produce,
    ("nats", "consume"): nats_consume,
}
"""(product, job) -> run."""


if __name__ == "__main__":
    run_client(CLIENTS)
