"""Produces the same messages with four Python clients. Each function does one run in this process
with ``count`` messages of ``size`` bytes, and returns the measurements.

``stamped`` puts the audit's header on every message. Our producer does it by itself; for the others
the application does it: it numbers the messages, packs the number, and passes the header.
``differ``: the sizes are between half and one and a half times ``size``.
``batch`` is the number of messages in a batch, 0 the client's default; ``linger_ms`` is 5 for all.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from tallymark.client.producing.stamps import STAMP_HEADER, stamp_ends, uvarint

Job = dict[str, Any]
Result = dict[str, float]

LINGER_MS: Final = 5
SERVER: Final = "bench"
_OVERHEAD: Final = {False: 9, True: 9 + 3 + 1 + 17 + len(SERVER)}
"""Bytes of a record without its payload, for clients whose batches are limited in bytes."""


class Measured:
    """Seconds and CPU seconds (of all threads of this process) of a ``with`` block. A consumer
    calls :meth:`first` at its first message, so that seconds do not include the connect; CPU
    seconds include the fetches before it."""

    def __enter__(self) -> Measured:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._started = self._ended = False
        return self

    def first(self) -> None:
        """Begin to measure seconds; only the first call has an effect."""
        if not self._started:
            self._started, self._began = True, time.perf_counter()

    def last(self) -> None:
        """End the measurement: later work (leaving a group) is not included."""
        if not self._ended:
            self._ended = True
            self.seconds = time.perf_counter() - self._began
            self.cpu = time.process_time() - self._cpu

    def __exit__(self, *error: object) -> None:
        self.last()

    def result(self, count: int) -> Result:
        return {"messages": count, "seconds": self.seconds, "client_cpu_seconds": self.cpu}


def tallymark_send(job: Job) -> Result:
    size = job["size"]
    some = range(size // 2, size + size // 2 + 1) if job.get("differ") else [size]
    lengths = Random(1).sample(some, len(some))
    values = itertools.cycle([b"x" * length for length in lengths])
    with _own(job) as producer, Measured() as measured:
        send, topic = producer.send, job["topic"]
        for value in itertools.islice(values, job["count"]):
            send(topic, value)
        producer.flush(120)
    return measured.result(job["count"])


def tallymark_send_many(job: Job) -> Result:
    with _own(job) as producer, Measured() as measured:
        values = [b"x" * job["size"]] * job["list"]
        rounds = job["count"] // job["list"]
        sent = [producer.send_many(job["topic"], values) for _ in range(rounds)]
        for one in sent:
            one.result(120)
    return measured.result(rounds * job["list"])


def _own(job: Job) -> Any:
    from tallymark import Producer

    more: Job = {"batch_num_messages": job["batch"]} if job["batch"] else {}
    producer = Producer(
        bootstrap_servers=job["servers"],
        audit=False,
        linger_ms=LINGER_MS,
        stamp=job["stamped"],
        server=SERVER,
        **more,
    )
    producer.send(job["topic"], b"first").result(30)
    return producer


def confluent_send(job: Job) -> Result:
    producer = _confluent(job)
    produce, topic, value = producer.produce, job["topic"], b"x" * job["size"]
    with Measured() as measured:
        for number, headers in zip(range(job["count"]), _headers(job), strict=False):
            produce(topic, value, headers=headers)
            if not number % 1000:
                producer.poll(0)
        left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} messages are left")
    return measured.result(job["count"])


def confluent_send_many(job: Job) -> Result:
    producer = _confluent(job)
    value, numbers = b"x" * job["size"], _headers(job)
    plain = [{"value": value}] * job["list"]
    rounds = job["count"] // job["list"]
    with Measured() as measured:
        for _ in range(rounds):
            if job["stamped"]:
                plain = [{"value": value, "headers": next(numbers)} for _ in range(job["list"])]
            producer.produce_batch(job["topic"], plain)
            producer.poll(0)
        left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} messages are left")
    return measured.result(rounds * job["list"])


def _confluent(job: Job) -> Any:
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": job["servers"],
        "linger.ms": LINGER_MS,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 1_000_000,
    }
    if job["batch"]:
        settings["batch.num.messages"] = job["batch"]
    producer = Producer(settings)
    producer.produce(job["topic"], b"first")
    if producer.flush(30):
        raise RuntimeError("no answer")
    return producer


def kafka_python_send(job: Job) -> Result:
    from kafka import KafkaProducer

    more: Job = {"batch_size": job["batch"] * _bytes(job)} if job["batch"] else {}
    producer = KafkaProducer(bootstrap_servers=job["servers"], linger_ms=LINGER_MS, **more)
    producer.send(job["topic"], b"first").get(30)
    send, topic, value = producer.send, job["topic"], b"x" * job["size"]
    with Measured() as measured:
        for _, headers in zip(range(job["count"]), _headers(job), strict=False):
            send(topic, value, headers=headers)
        producer.flush(120)
    producer.close()
    return measured.result(job["count"])


def aiokafka_send(job: Job) -> Result:
    return asyncio.run(_aiokafka_send(job))


async def _aiokafka_send(job: Job) -> Result:
    from aiokafka import AIOKafkaProducer

    more: Job = {"max_batch_size": job["batch"] * _bytes(job)} if job["batch"] else {}
    producer = AIOKafkaProducer(
        bootstrap_servers=job["servers"],
        linger_ms=LINGER_MS,
        enable_idempotence=True,
        **more,
    )
    async with producer:
        await producer.send_and_wait(job["topic"], b"first")
        send, topic, value = producer.send, job["topic"], b"x" * job["size"]
        with Measured() as measured:
            for _, headers in zip(range(job["count"]), _headers(job), strict=False):
                await send(topic, value, headers=headers)
            await producer.flush()
    return measured.result(job["count"])


def _bytes(job: Job) -> int:
    return int(job["size"]) + _OVERHEAD[job["stamped"]]


def _headers(job: Job) -> Iterator[Any]:
    """The headers of each message."""
    if not job["stamped"]:
        return itertools.repeat([])
    front, back = stamp_ends(os.urandom(8), 0, SERVER)
    return ([(STAMP_HEADER, front + uvarint(number) + back)] for number in itertools.count())


PRODUCERS: Final[dict[tuple[str, str], Callable[[Job], Result]]] = {
    ("tallymark", "send"): tallymark_send,
    ("tallymark", "list"): tallymark_send_many,
    ("confluent-kafka", "send"): confluent_send,
    ("confluent-kafka", "list"): confluent_send_many,
    ("kafka-python", "send"): kafka_python_send,
    ("aiokafka", "send"): aiokafka_send,
}
"""(client, how) -> run. The other two clients do not accept lists."""
