"""Batches that are none, sent to a broker: refused with the record's place, whoever sends them, and
what others wrote and read goes on."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import crc32c
import pytest

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

TOPIC = "clicks"
GOOD = encode_batch([(b"k", b"v%d" % n, (), 1) for n in range(20)])


@pytest.fixture(scope="module", params=["lengths", "full"])
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    with BrokerThread(folder, record_validation=request.param) as running:
        yield running


def batch_of(
    payload: bytes, count: int, *, codec: str = "none", attributes: int = 0, producer_id: int = -1
) -> bytes:
    """A batch with a right CRC that claims to hold ``count`` records."""
    packed = bytes(compress(codec, payload))
    attributes |= CODECS.index(codec)
    numbers = (producer_id, 0, 0) if producer_id >= 0 else (-1, -1, -1)
    head = struct.pack(">hiqqqhii", attributes, count - 1, 0, 0, *numbers, count)
    crc = crc32c.crc32c(packed, crc32c.crc32c(head))
    return struct.pack(">qiibI", 0, 49 + len(packed), -1, 2, crc) + head + packed


def produce(wire: WireClient, records: bytes, version: int = 11, topic: str = TOPIC) -> Any:
    part = m.ProduceRequestPartition(index=0, records=records)
    named = m.ProduceRequestTopic(name=topic, partition_data=[part])
    request = m.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[named])
    return wire.ask(request, version).responses[0].partition_responses[0]


def end_of_log(wire: WireClient) -> int:
    """Where the next record goes, by appending one."""
    wire.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name=TOPIC)]), 9)
    answer = produce(wire, encode_batch([(b"k", b"v", (), 1)]))
    assert answer.error_code == 0, answer
    return int(answer.base_offset)


def broken(record: int) -> bytes:
    """The good records, one of them with another offset than its own."""
    payload = bytearray(GOOD[HEADER_SIZE:])
    position = 0
    for _ in range(record):
        position += 1 + (payload[position] >> 1)
    payload[position + 3] ^= 0x20
    return bytes(payload)


@pytest.mark.parametrize(
    ("records", "places", "text"),
    [
        (batch_of(Random(5).randbytes(200), 1), [0], "record 0"),
        (batch_of(GOOD[HEADER_SIZE:], 2**31 - 1), [], "2147483647 records cannot stand in"),
        (batch_of(GOOD[HEADER_SIZE:], 2**31 - 1, codec="zstd"), [], "bytes of zstd"),
        (batch_of(b"", 1), [], "1 records cannot stand in 0 bytes"),
        (batch_of(b"\x1a\0\0\0\x90\x4e" + b"key\0\0\0\0\0", 1), [0], "key is longer than the rec"),
        (batch_of(broken(0), 20), [0], "offset is not the next one"),
        (batch_of(GOOD[HEADER_SIZE:], 20, attributes=0x20), [], "control batches"),
    ],
)
@pytest.mark.parametrize("version", [7, 11])
def test_what_is_no_batch_of_records_is_refused(
    wire: WireClient, records: bytes, places: list[int], text: str, version: int
) -> None:
    """A batch of 200 random bytes, one of two billion records, one of none, one with a key longer
    than itself: each was taken and given its offsets. From then on every consumer of the topic
    stopped there, its mirror began anew for ever, and other topics moved in bursts."""
    before = end_of_log(wire)
    answer = produce(wire, records, version)
    assert answer.error_code == CODES["INVALID_RECORD"]
    assert answer.log_start_offset == 0
    if version == 11:
        assert [each.batch_index for each in answer.record_errors] == places
        assert text in answer.error_message
        assert all(each.batch_index_error_message for each in answer.record_errors)
    assert end_of_log(wire) == before + 1, "nothing of it is in the log"


def test_batches_of_transactions_are_refused_as_such(wire: WireClient) -> None:
    end_of_log(wire)
    for records in (batch_of(b"\xff" * 50, 1, attributes=0x10), batch_of(b"", 1, attributes=0x30)):
        assert produce(wire, records).error_code == CODES["INVALID_TXN_STATE"]


@pytest.mark.parametrize("codec", CODECS)
def test_good_batches_are_taken(wire: WireClient, codec: str) -> None:
    before = end_of_log(wire)
    assert produce(wire, batch_of(GOOD[HEADER_SIZE:], 20, codec=codec)).base_offset == before + 1
    assert end_of_log(wire) == before + 21


@pytest.mark.parametrize("codec", CODECS)
def test_full_names_the_record_in_every_codec(
    broker: BrokerThread, wire: WireClient, codec: str
) -> None:
    """By default what is compressed is not opened, as by Kafka; who wants it says ``full``."""
    end_of_log(wire)
    answer = produce(wire, batch_of(broken(17), 20, codec=codec))
    if broker.settings.record_validation == "full":
        assert answer.error_code == CODES["INVALID_RECORD"]
        assert [each.batch_index for each in answer.record_errors] == [17]
    elif codec != "none":
        assert answer.error_code == 0


def test_a_refused_batch_burns_no_sequence(wire: WireClient) -> None:
    """An idempotent producer mends its batch and sends it under the same sequence."""
    end_of_log(wire)
    bad = batch_of(Random(6).randbytes(100), 20, producer_id=77)
    assert produce(wire, bad).error_code == CODES["INVALID_RECORD"]
    good = batch_of(GOOD[HEADER_SIZE:], 20, producer_id=77)
    first = produce(wire, good)
    assert first.error_code == 0
    assert produce(wire, good).base_offset == first.base_offset
