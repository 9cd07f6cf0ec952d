"""One run of one Python client, as a process of its own: ``python peers.py '{"job": "produce",
"client": "tallymark", "how": "send", ...}'``, the result as JSON, with the process's peak memory
(``rss_mb``, and ``base_mb``: with everything imported and nothing done)."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.peer_consumers import CONSUMERS
from support.peer_producers import PRODUCERS, Job, Result


def main() -> None:
    job: Job = json.loads(sys.argv[1])
    __import__(
        {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "aiokafka": "aiokafka"}.get(
            job["client"], "tallymark.client"
        )
    )
    gc.collect()
    base = _peak_mb()
    if job["job"] == "idle":
        result = _idle(job)
    else:
        runs = PRODUCERS if job["job"] == "produce" else CONSUMERS
        result = runs[job["client"], job["how"]](job)
    print(json.dumps({**result, "rss_mb": _peak_mb(), "base_mb": base}))


def _peak_mb() -> float:
    # Not ru_maxrss, which starts with the value of the parent process.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 1024


def _idle(job: Job) -> Result:
    """CPU per second of a producer and a consumer, both connected, on an empty topic."""
    if job["client"] == "aiokafka":
        return asyncio.run(_idle_aiokafka(job))
    opened = {
        "tallymark": _idle_tallymark,
        "confluent-kafka": _idle_confluent,
        "kafka-python": _idle_kafka_python,
    }[job["client"]](job)
    poll, close = opened
    poll(1.0)
    began = time.process_time()
    poll(job["seconds"])
    used = time.process_time() - began
    close()
    return {"idle_percent": 100 * used / job["seconds"]}


def _idle_tallymark(job: Job) -> Any:
    from tallymark.client import ConsumerConnector, Producer

    producer = Producer(bootstrap_servers=job["servers"], audit=False, stamp=True)
    producer.send(job["topic"], b"x").result(30)
    connector = ConsumerConnector(
        bootstrap_servers=job["servers"],
        group="idle-own",
        coordinator="brokers",
        auto_offset_reset="largest",
    )
    (stream,) = connector.create_message_streams({job["topic"]: 1})[job["topic"]]

    def close() -> None:
        connector.shutdown()
        producer.close()

    return stream.poll, close


def _idle_confluent(job: Job) -> Any:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": job["servers"]})
    producer.produce(job["topic"], b"x")
    producer.flush(30)
    consumer = Consumer({"bootstrap.servers": job["servers"], "group.id": "idle-ck"})
    consumer.subscribe([job["topic"]])
    return consumer.poll, consumer.close


def _idle_kafka_python(job: Job) -> Any:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(bootstrap_servers=job["servers"])
    producer.send(job["topic"], b"x").get(30)
    consumer = KafkaConsumer(job["topic"], bootstrap_servers=job["servers"], group_id="idle-kp")

    def close() -> None:
        consumer.close()
        producer.close()

    return lambda seconds: consumer.poll(seconds * 1000), close


async def _idle_aiokafka(job: Job) -> Result:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=job["servers"])
    consumer = AIOKafkaConsumer(job["topic"], bootstrap_servers=job["servers"], group_id="idle-aio")
    async with producer, consumer:
        await producer.send_and_wait(job["topic"], b"x")
        await consumer.getmany(timeout_ms=1000)
        began = time.process_time()
        await consumer.getmany(timeout_ms=int(job["seconds"] * 1000))
        used = time.process_time() - began
    return {"idle_percent": 100 * used / job["seconds"]}


if __name__ == "__main__":
    main()
