"""A coordinator that starts with many transactional ids in its log."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final
from uuid import UUID

from support.measure import cpu_seconds, rss_bytes
from support.own_broker import OwnBroker

from tallymark import Producer
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.transactions.shards import TransactionShards
from tallymark.log import Log, LogConfig
from tallymark.log.disk.files import OsFiles
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.records.writer import encode_batch
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC
from tallymark.transactions.records import encode_key, encode_value
from tallymark.transactions.transaction import State, Transaction

_BATCH: Final = 500
_TICK: Final = 0.001
_NOW: Final = int(time.time() * 1000)


def load(folder: Path, count: int) -> dict[str, float]:
    """Seconds until an id is served after a start with ``count`` ids in one partition, and without
    them; how much more processor time that start takes, and MB of memory; and :func:`longest_hold`.
    Apache Kafka is not measured: its files are written by no other program."""
    broker = OwnBroker(folder, {"transaction.state.log.num.partitions": "1"})
    with broker:
        _use(broker)
    seconds, cpu, megabytes = _start(broker)
    _append(broker.data / f"{TRANSACTIONS_TOPIC}-0", count)
    more_seconds, more_cpu, more_megabytes = _start(broker)
    return {
        "ids": count,
        "seconds": more_seconds,
        "seconds_without": seconds,
        "cpu_seconds": more_cpu - cpu,
        "mb": more_megabytes - megabytes,
        **asyncio.run(longest_hold(broker.data / f"{TRANSACTIONS_TOPIC}-0")),
    }


async def longest_hold(folder: Path) -> dict[str, float]:
    """Load the ids of a log in this process: ``load_seconds``, and ``hold_ms``, for how long the
    event loop did not run meanwhile. ``hold_cpu_ms`` is the processor time that this process used
    between two turns of its loop: other work on the machine does not count there."""
    log = Log.open(OsFiles(), str(folder), LogConfig(), clean=True, now_ms=_NOW)
    waits: list[tuple[float, float]] = []
    watch = asyncio.create_task(_watch(waits))
    await asyncio.to_thread(time.sleep, 0.1)  # a broker that loads has threads already
    waits.clear()
    shards, began = TransactionShards(lambda: _NOW), time.monotonic()
    await shards.take(Partition(TRANSACTIONS_TOPIC, 0, UUID(int=1), log, 0))
    seconds = time.monotonic() - began
    watch.cancel()
    shards.close()
    log.close()
    wall, cpu = (max(each) * 1000 for each in zip(*waits, strict=True))
    return {"load_seconds": seconds, "hold_ms": wall, "hold_cpu_ms": cpu}


async def _watch(waits: list[tuple[float, float]]) -> None:
    while True:
        began, cpu = time.monotonic(), time.process_time()
        await asyncio.sleep(_TICK)
        waits.append((time.monotonic() - began - _TICK, time.process_time() - cpu))


def _use(broker: OwnBroker) -> None:
    with Producer(bootstrap_servers=broker.address, transactional_id="first") as producer:
        producer.init_transactions(timeout=300)


def _start(broker: OwnBroker) -> tuple[float, float, float]:
    began = time.monotonic()
    with broker:
        _use(broker)
        seconds = time.monotonic() - began
        return seconds, cpu_seconds(broker.pid), rss_bytes(broker.pid) / 1e6


def _append(folder: Path, count: int) -> None:
    """To the log of a broker that is down; it checks the end of the log at its start."""
    (log,) = folder.glob("*.log")
    last = split_batches(log.read_bytes())[-1].header
    offset = last.next_offset
    with log.open("ab") as file:
        for first in range(0, count, _BATCH):
            records = [_record(number) for number in range(first, min(first + _BATCH, count))]
            epoch = last.partition_leader_epoch
            file.write(encode_batch(records, base_offset=offset, leader_epoch=epoch))
            offset += len(records)
    for marker in folder.parent.glob(".kafka_cleanshutdown"):
        marker.unlink()


def _record(number: int) -> tuple[bytes, bytes, tuple[()], int]:
    name = f"application-of-a-team-{number}"
    state = Transaction(
        name, 10_000 + number, 3, 60_000, State.COMPLETE_COMMIT, frozenset(), _NOW, version=2
    )
    return encode_key(name), encode_value(state, 1), (), _NOW
