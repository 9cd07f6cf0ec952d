"""What a fetch brought: columns, messages and records say the same; broken batches say where."""

from __future__ import annotations

import struct
from collections.abc import Callable

import crc32c
import pytest

from tallymark.client.reading.fetched import Fetched
from tallymark.errors import CODES, CorruptMessageError, CorruptRecordError, KafkaError
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, encode_batch, split_batches
from tallymark.protocol.records.compression import CODECS


def batch(first: int, count: int, codec: str = "none", epoch: int = 0) -> Batch:
    records = [
        (b"k%d" % n if n % 3 else None, b"v%d" % n, (("tm", b"%d" % n),), 1000 + n)
        for n in range(first, first + count)
    ]
    data = encode_batch(records, base_offset=first, compression=codec, leader_epoch=epoch)
    return split_batches(bytearray(data))[0]


def fetched(*batches: Batch, offset: int = 0) -> Fetched:
    end = batches[-1].header.next_offset if batches else offset
    return Fetched("t", 3, offset, end + 5, 0, batches, end, 0, source="h:1")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("offset", [0, 5, 9, 10, 35])
def test_all_ways_say_the_same(codec: str, offset: int) -> None:
    found = fetched(batch(0, 10, codec), batch(10, 30, codec, epoch=2), offset=offset)
    wanted = range(offset, 40)
    assert found.offsets == wanted or list(found.offsets) == list(wanted)
    assert found.values() == [b"v%d" % n for n in wanted]
    assert found.keys() == [b"k%d" % n if n % 3 else None for n in wanted]
    assert found.timestamps == [1000 + n for n in wanted]
    assert found.headers() == [(("tm", b"%d" % n),) for n in wanted]
    assert [record[:5] for record in found.records()] == [m[2:7] for m in found]
    for message in found:
        assert (message.topic, message.partition) == ("t", 3)
        assert message.leader_epoch == (0 if message.offset < 10 else 2)
    columns = found.columns()
    assert columns is found.columns()
    assert len(columns) == len(wanted)
    assert columns.messages() == list(found)
    assert (columns.next_offset, found.lag) == (40, 5)
    assert columns.size > 0
    assert repr(columns) == f"<MessageBatch of {len(wanted)} of t-3 before offset 40>"


def test_nothing_fetched_is_empty_columns() -> None:
    found = fetched(offset=7)
    assert (list(found.offsets), found.values(), found.timestamps, list(found)) == ([], [], [], [])
    assert len(found.columns()) == 0


def test_offsets_of_whole_batches_are_one_range() -> None:
    found = fetched(*(batch(10 * n, 10) for n in range(20)))
    assert found.offsets == range(200)


def test_transaction_markers_have_no_messages() -> None:
    marker = batch(2, 1)
    marker.data[22] |= 0x20
    found = fetched(batch(0, 2), split_batches(marker.data)[0], batch(3, 2))
    assert list(found.offsets) == [0, 1, 3, 4]
    assert [message.offset for message in found] == [0, 1, 3, 4]


def forged(change: Callable[[bytearray], None], codec: str = "none") -> Batch:
    """A batch at offset 2 that says something else than it is, under a CRC that fits."""
    data = bytearray(batch(2, 30, codec).data)
    change(data)
    struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    found = split_batches(data)[0]
    found.check_crc()
    return found


def count_one_more(data: bytearray) -> None:
    struct.pack_into(">ii", data, 23, 30, 0)
    struct.pack_into(">i", data, 57, 31)


def count_two_thousand_million(data: bytearray) -> None:
    struct.pack_into(">i", data, 23, 2**31 - 1)
    struct.pack_into(">i", data, 57, 2**31 - 1)


def negative_length(data: bytearray) -> None:
    data[HEADER_SIZE] = 0x0B


def cut_record(data: bytearray) -> None:
    del data[-1:]
    struct.pack_into(">i", data, 8, len(data) - 12)


def no_such_data(data: bytearray) -> None:
    data[HEADER_SIZE:] = b"\xff" * (len(data) - HEADER_SIZE)


@pytest.mark.parametrize(
    ("change", "codec"),
    [
        (count_one_more, "none"),
        (count_two_thousand_million, "none"),
        (negative_length, "none"),
        (cut_record, "none"),
        (no_such_data, "none"),
        (no_such_data, "gzip"),
        (no_such_data, "snappy"),
        (no_such_data, "lz4"),
        (no_such_data, "zstd"),
        (count_one_more, "zstd"),
    ],
)
def test_a_hostile_batch_is_a_corrupt_message_that_names_its_place(
    change: Callable[[bytearray], None], codec: str
) -> None:
    found = fetched(batch(0, 2), forged(change, codec))
    ways: list[Callable[[], object]] = [found.values, found.records, lambda: list(found)]
    for way in ways:
        with pytest.raises(KafkaError, match=r"h:1: t-3 at offset 2: .*CORRUPT_MESSAGE") as caught:
            way()
        assert isinstance(caught.value, CorruptMessageError)
        assert isinstance(caught.value, CorruptRecordError)
        assert caught.value.code == CODES["CORRUPT_MESSAGE"]
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 3, 2)
    first = [message.offset for _, message in zip(range(2), found, strict=False)]
    assert first == [0, 1], "what stands before it can be had"
