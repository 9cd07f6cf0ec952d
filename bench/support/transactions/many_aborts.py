"""Fetches of committed records at the end of a log with very many aborted transactions before."""

from __future__ import annotations

import struct
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from support.measure import cpu_seconds, rss_bytes
from support.own_broker import OwnBroker
from support.transactions.work import Found, timed

from tallymark import Producer, SimpleConsumer
from tallymark.client import Admin
from tallymark.protocol.records.batch import encode_batch, place_batch, split_batches
from tallymark.protocol.records.markers import Marker, marker_batch

_TOPIC: Final = "aborted"
_OFFSET: Final = struct.Struct(">q")
_PRODUCER: Final = 9_000_000
_NOW: Final = int(time.time() * 1000)
_SETTLED_SECONDS: Final = 600.0


def fetches_behind_many(folder: Path, count: int, fetches: int) -> dict[int, Found]:
    """By the count of aborted transactions before them (0 and ``count``): milliseconds of a fetch,
    p50 and p99, and the processor time of the broker for it; ``start_seconds`` until the first one
    is answered, and ``mb`` of the broker then. The log is written while the broker is down, so its
    start recovers it. Ours alone: Apache Kafka's files are written by no other program."""
    broker = OwnBroker(folder)
    with broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            admin.create_topic(_TOPIC, 1)
        offset = _committed(broker.address)
        found = {0: _fetched(broker, time.monotonic(), offset, fetches)}
    _append(broker.data / f"{_TOPIC}-0", count)
    began = time.monotonic()
    broker.start(_SETTLED_SECONDS)
    with closing(broker):
        found[count] = _fetched(broker, began, _committed(broker.address), fetches)
    return found


def _committed(address: str) -> int:
    """100 messages in a transaction; the first offset of them."""
    with Producer(bootstrap_servers=address, transactional_id="last", linger_ms=0) as producer:
        producer.init_transactions(timeout=_SETTLED_SECONDS)
        with producer.transaction():
            last = [producer.send(_TOPIC, b"." * 1000) for _ in range(100)]
        return last[0].result(_SETTLED_SECONDS).offset


def _fetched(broker: OwnBroker, began: float, offset: int, fetches: int) -> Found:
    with SimpleConsumer(bootstrap_servers=broker.address, isolation="read_committed") as consumer:
        fetch = partial(consumer.fetch, _TOPIC, 0, offset)
        while not fetch().values():
            time.sleep(0.01)  # the marker is written after the commit was answered
        found: Found = {"start_seconds": time.monotonic() - began}
        cpu = cpu_seconds(broker.pid)
        found |= timed(fetch, fetches)
        found["cpu_ms"] = (cpu_seconds(broker.pid) - cpu) / fetches * 1000
        found["mb"] = rss_bytes(broker.pid) / 1e6
    return found


def _append(folder: Path, count: int) -> None:
    """``count`` times a batch and its ABORT marker. Offsets are not in a batch's checksum, so the
    same two are written again and again."""
    (log,) = folder.glob("*.log")
    last = split_batches(log.read_bytes())[-1].header
    epoch = last.partition_leader_epoch
    data = encode_batch(
        [(None, b"x", (), _NOW)],
        producer_id=_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        leader_epoch=epoch,
    )
    marker = marker_batch(Marker(commit=False, coordinator_epoch=0), _PRODUCER, 0, _NOW)
    place_batch(marker, 0, at := last.next_offset, epoch)
    with log.open("ab") as file:
        for first in range(at, at + 2 * count, 2):
            file.write(_OFFSET.pack(first) + data[8:] + _OFFSET.pack(first + 1) + marker[8:])
    for clean in folder.parent.glob(".kafka_cleanshutdown"):
        clean.unlink()
