"""Reads one partition with four Python clients, message by message or in lists. Each function does
one run in this process. Each client makes its default checks of CRCs (librdkafka makes none), and
the value of every message is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from support.peer_producers import Job, Measured, Result

_FETCH_BYTES: Final = 1024 * 1024
_PATIENCE: Final = 30.0


def tallymark_single(job: Job) -> Result:
    """The connector's stream, iterated as by an application."""
    from tallymark.client import ConsumerConnector

    got, size, count = 1, 0, job["count"]
    with (
        Measured() as measured,
        ConsumerConnector(
            bootstrap_servers=job["servers"], group=f"own-{job['number']}", coordinator="brokers"
        ) as connector,
    ):
        (stream,) = connector.create_message_streams({job["topic"]: 1})[job["topic"]]
        size += len(next(stream).value or b"")
        measured.first()
        for message in stream:
            size += len(message.value or b"")
            got += 1
            if got == count:
                break
        measured.last()
    return _checked(measured, count, size, job)


def tallymark_list(job: Job) -> Result:
    """The same stream, by batches."""
    from tallymark.client import ConsumerConnector

    got, size, count = 0, 0, job["count"]
    with (
        Measured() as measured,
        ConsumerConnector(
            bootstrap_servers=job["servers"],
            group=f"own-{job['number']}",
            coordinator="brokers",
            compiled_reads=job["client"].endswith("compiled"),
        ) as connector,
    ):
        (stream,) = connector.create_message_streams({job["topic"]: 1})[job["topic"]]
        for batch in stream.batches():
            measured.first()
            values = batch.values()
            size += sum(map(len, values))  # type: ignore[arg-type]  # no nulls are sent
            got += len(values)
            if got >= count:
                break
        measured.last()
    return _checked(measured, got, size, job)


def compiled_list(job: Job) -> Result:
    """The same with ``compiled_reads``, measured from when the loops are loaded."""
    from tallymark.protocol.records.compiled import kernel

    kernel.warm()
    if not kernel.KERNEL.wait():
        raise RuntimeError("the loops are not compiled here")
    return tallymark_list(job)


def simple_list(job: Job) -> Result:
    """Our SimpleConsumer: no group, columns of a fetch."""
    from tallymark.client import SimpleConsumer

    got, size, count, offset = 0, 0, job["count"], 0
    with SimpleConsumer(bootstrap_servers=job["servers"]) as consumer, Measured() as measured:
        measured.first()
        while got < count:
            found = consumer.fetch(job["topic"], 0, offset, max_bytes=_FETCH_BYTES)
            values = found.values()
            size += sum(map(len, values))  # type: ignore[arg-type]  # no nulls are sent
            got += len(values)
            offset = found.next_offset
    return _checked(measured, got, size, job)


def confluent_single(job: Job) -> Result:
    with Measured() as measured:
        consumer = _confluent(job)
        count, poll = job["count"], consumer.poll
        size = len(poll(_PATIENCE).value())
        measured.first()
        for _ in range(count - 1):
            size += len(poll(_PATIENCE).value())
    consumer.close()
    return _checked(measured, count, size, job)


def confluent_list(job: Job) -> Result:
    got, size, count = 0, 0, job["count"]
    with Measured() as measured:
        consumer = _confluent(job)
        while got < count:
            messages = consumer.consume(10_000, 0.2)
            if messages:
                measured.first()
            for message in messages:
                size += len(message.value())
            got += len(messages)
    consumer.close()
    return _checked(measured, got, size, job)


def _confluent(job: Job) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": job["servers"], "group.id": f"ck-{job['number']}"})
    consumer.assign([TopicPartition(job["topic"], 0, OFFSET_BEGINNING)])
    return consumer


def kafka_python_single(job: Job) -> Result:
    with Measured() as measured:
        consumer = _kafka_python(job)
        size, got, count = len(next(consumer).value), 1, job["count"]
        measured.first()
        for message in consumer:
            size += len(message.value)
            got += 1
            if got == count:
                break
    consumer.close()
    return _checked(measured, got, size, job)


def kafka_python_list(job: Job) -> Result:
    got, size, count = 0, 0, job["count"]
    with Measured() as measured:
        consumer = _kafka_python(job)
        while got < count:
            for messages in consumer.poll(200, max_records=10_000).values():
                measured.first()
                for message in messages:
                    size += len(message.value)
                got += len(messages)
    consumer.close()
    return _checked(measured, got, size, job)


def _kafka_python(job: Job) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job["servers"], enable_auto_commit=False)
    place = TopicPartition(job["topic"], 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    return consumer


def aiokafka_single(job: Job) -> Result:
    return asyncio.run(_aiokafka(job, single=True))


def aiokafka_list(job: Job) -> Result:
    return asyncio.run(_aiokafka(job, single=False))


async def _aiokafka(job: Job, single: bool) -> Result:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    got, size, count = 0, 0, job["count"]
    consumer = AIOKafkaConsumer(bootstrap_servers=job["servers"], enable_auto_commit=False)
    with Measured() as measured:
        async with consumer:
            place = TopicPartition(job["topic"], 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            if single:
                async for message in consumer:
                    measured.first()
                    size += len(message.value)
                    got += 1
                    if got == count:
                        break
            while got < count:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    measured.first()
                    for message in messages:
                        size += len(message.value)
                    got += len(messages)
            measured.last()
    return _checked(measured, got, size, job)


def _checked(measured: Measured, got: int, size: int, job: Job) -> Result:
    """Check that all messages were read: the topic's first message is five bytes long, and the
    last ones of those that differ may be short."""
    if size < (got - 1 - bool(job.get("differ")) * job["size"] // 2) * job["size"]:
        raise RuntimeError(f"{got} messages had {size} bytes")
    return measured.result(got)


CONSUMERS: Final[dict[tuple[str, str], Callable[[Job], Result]]] = {
    ("tallymark", "single"): tallymark_single,
    ("tallymark", "list"): tallymark_list,
    ("tallymark, compiled", "list"): compiled_list,
    ("tallymark, simple", "list"): simple_list,
    ("confluent-kafka", "single"): confluent_single,
    ("confluent-kafka", "list"): confluent_list,
    ("kafka-python", "single"): kafka_python_single,
    ("kafka-python", "list"): kafka_python_list,
    ("aiokafka", "single"): aiokafka_single,
    ("aiokafka", "list"): aiokafka_list,
}
"""(client, how) -> run."""
