"""Topics that ``bench/spark.py`` reads: stamped records of 200 B in 8 partitions, written batch by
batch as producers and mirrors write them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

from tallymark.client import Admin
from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient

LAYOUTS: Final = {
    "equal": "one producer, values of 200 B",
    "sizes": "one producer, values of 100 to 300 B",
    "mixed": "a mirror's batches of 64 producers, values of 200 B",
}
PARTITIONS: Final = 8
_BATCH: Final = 70
"""Records of 200 B in 16 KiB."""
_AT_ONCE: Final = 60
_VALUE: Final = b"v" * 300
_PER_MS: Final = 50


def fill(servers: str, topic: str, records: int) -> int:
    """Make the topic, named as its layout: how many records it has."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    each = records // PARTITIONS // _BATCH * _BATCH
    with WireClient(servers, timeout=60) as wire:
        for partition in range(PARTITIONS):
            waiting: list[bytes] = []
            for batch in _batches(topic, partition, each):
                waiting.append(batch)
                if len(waiting) == _AT_ONCE:
                    _send(wire, topic, partition, waiting)
                    waiting = []
            _send(wire, topic, partition, waiting)
    return each * PARTITIONS


def _send(wire: WireClient, topic: str, partition: int, batches: list[bytes]) -> None:
    """A request takes one batch of a partition."""
    for batch in batches:
        part = ProduceRequestPartition(index=partition, records=batch)
        named = ProduceRequestTopic(name=topic, partition_data=[part])
        answer = wire.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[named]), 9)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise SystemExit(f"{topic}-{partition}: error {code}")


def _batches(layout: str, partition: int, records: int) -> Iterator[bytes]:
    rng = random.Random(partition)
    producers = 64 if layout == "mixed" else 1
    of_each = _BATCH // 7 if layout == "mixed" else _BATCH
    sequences = [0] * producers
    start = time.time_ns() // 1_000_000 - 3_600_000
    turn = 0
    for first in range(0, records, _BATCH):
        rows = []
        while len(rows) < _BATCH:
            number, turn = turn % producers, turn + 1
            for sequence in range(sequences[number], sequences[number] + of_each):
                stamp = Stamp(b"%08d" % number, partition, sequence, f"web-{number:03d}")
                size = rng.randint(100, 300) if layout == "sizes" else 200
                at = start + (first + len(rows)) // _PER_MS
                rows.append((None, _VALUE[:size], ((STAMP_HEADER, encode_stamp(stamp)),), at))
            sequences[number] += of_each
        yield encode_batch(rows)
