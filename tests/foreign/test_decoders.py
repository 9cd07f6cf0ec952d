"""The bytes of our producer under the decoders of kio and kafka-python, no client between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pytest
from foreign_clients import kafka_python, ours
from foreign_clients.rows import Row, columns, rows
from kafka.record import MemoryRecords
from kio.records.readers import read_batch

from tallymark.protocol.records.compression import CODECS
from tallymark.testing.scripted_broker import ScriptedBroker

WRITERS = {"send": (ours.write, rows), "send_many": (ours.write_columns, columns)}
EVERY_WAY = pytest.mark.parametrize("way", WRITERS)


def written(way: str, codec: str, stamp: bool) -> tuple[bytes, list[Row]]:
    """The batches of a partition as they came, and what was sent."""
    write, make = WRITERS[way]
    some = make(codec, True) if make is rows else make(codec)
    with ScriptedBroker({"t": 1}) as broker:
        write(broker.address, "t", some, codec, stamp=stamp, server="here", batch_size=20_000)
        return b"".join(bytes(batch.data) for batch in broker.log("t").batches), some


def check(found: Iterator[Row], some: list[Row], stamp: bool) -> None:
    for one, sent in zip_longest(found, some):
        assert one is not None
        assert len(one[2]) == len(sent[2]) + stamp
        assert (one[0], one[1], one[2][: len(sent[2])], one[3]) == sent


@EVERY_WAY
@pytest.mark.parametrize("stamp", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python(way: str, codec: str, stamp: bool) -> None:
    if not kafka_python.has_codec(codec):
        pytest.skip("kafka-python's package for this codec is not installed")
    data, some = written(way, codec, stamp)

    def found() -> Iterator[Row]:
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            assert batch.validate_crc()
            yield from ((r.key, r.value, r.headers, r.timestamp) for r in batch)

    check(found(), some, stamp)


@EVERY_WAY
@pytest.mark.parametrize("stamp", [False, True])
def test_kio(way: str, stamp: bool) -> None:
    """It decompresses nothing, and its timestamps are of whole seconds."""
    data, some = written(way, "none", stamp)
    some = [(key, value, headers, time // 1000) for key, value, headers, time in some]

    def found() -> Iterator[Row]:
        at = 0
        while at < len(data):
            batch, size = read_batch(data, at)
            at += size
            for record in batch.records:
                headers = [((one.key or b"").decode(), one.value) for one in record.headers]
                seconds = int(record.timestamp.timestamp())
                yield record.key, record.value, headers, seconds

    check(found(), some, stamp)
