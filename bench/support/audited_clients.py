"""One run of one producer, audited or not, as a process of its own, its result as JSON:
``python audited_clients.py '{"client": "tallymark", "how": "send", "audit": true, ...}'``.

Seconds and CPU are those of the work itself, without the start: from the first record to the last
acknowledgement or, if audited, to the last report.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Job = dict[str, Any]
_CHUNK: Final = 50
"""Records between two reads of the clock, in runs at a steady rate."""


def main() -> None:
    job: Job = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        job["journal"] = folder
        work, close = CLIENTS[job["client"]](job, bytes(job["size"]))
        cpu, begin = time.process_time(), time.perf_counter()
        work()
        close()
        result = {
            "messages": job["count"],
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - cpu,
        }
    print(json.dumps(result))


def tallymark(job: Job, value: bytes) -> tuple[Callable[[], None], Callable[[], None]]:
    """Our producer; unaudited, it does not stamp records, either."""
    from tallymark.client import Producer
    from tallymark_audit.reporters.producer.interceptor import AuditInterceptor

    interceptors = [AuditInterceptor(60_000, Path(job["journal"]))] if job["audit"] else []
    producer = Producer(
        bootstrap_servers=job["servers"],
        interceptors=interceptors,
        audit=job["audit"],
        server=job["server"],
        linger_ms=5,
    )
    topic, count = job["topic"], job["count"]
    producer.send(topic, value).result(30)

    def send() -> None:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()

    def send_many() -> None:
        values = [value] * 10_000
        for _ in range(count // len(values)):
            producer.send_many(topic, values)
        producer.flush()

    return {"send": send, "lists": send_many}[job["how"]], producer.close


def confluent(job: Job, value: bytes) -> tuple[Callable[[], None], Callable[[], None]]:
    """confluent-kafka; ``how`` says whether the application has a delivery callback, or wants to
    hear of errors only."""
    from confluent_kafka import Producer

    from tallymark_audit import audited

    config = {
        "bootstrap.servers": job["servers"],
        "linger.ms": 5,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 200_000,
        "delivery.report.only.error": job["how"] == "only errors",
    }
    producer: Any = Producer(config)
    if job["audit"]:
        options: Any = {"server": job["server"], "journal_dir": job["journal"]}
        producer = audited(producer, config, window_ms=60_000, **options)
    topic, count, rate = job["topic"], job["count"], job.get("rate")
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    more: Any = {"on_delivery": _nothing} if job["how"] == "callbacks" else {}

    def work() -> None:
        produce, poll = producer.produce, producer.poll
        begin = time.perf_counter()
        for number in range(count):
            while True:
                try:
                    produce(topic, value, **more)
                    break
                except BufferError:  # the queue is full: the broker gets time
                    poll(0.01)
            if number % _CHUNK == 0:
                poll(0)
                if rate:
                    time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        assert producer.flush(60) == 0

    return work, producer.close


def kafka_python(job: Job, value: bytes) -> tuple[Callable[[], None], Callable[[], None]]:
    """kafka-python."""
    from kafka import KafkaProducer

    from tallymark_audit import audited

    producer: Any = KafkaProducer(bootstrap_servers=job["servers"], linger_ms=5)
    if job["audit"]:
        options: Any = {"server": job["server"], "journal_dir": job["journal"]}
        producer = audited(producer, window_ms=60_000, **options)
    topic, count = job["topic"], job["count"]
    producer.send(topic, value).get(30)

    def work() -> None:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()

    return work, producer.close


def _nothing(error: object, message: object) -> None:
    """A delivery callback."""


CLIENTS: Final = {"tallymark": tallymark, "confluent": confluent, "kafka-python": kafka_python}


if __name__ == "__main__":
    main()
