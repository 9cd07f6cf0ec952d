"""Record batches: our form, kafka-python's reading of it, ours of kafka-python's, and bad ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from tallymark.errors import CorruptRecordError, LocalProtocolError
from tallymark.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    BatchBuilder,
    Record,
    encode_batch,
    place_batch,
    read_header,
    split_batches,
)
from tallymark.protocol.records.compression import CODECS

Input: TypeAlias = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]

# Lengths around the one- and two-byte varints, and above the table of varints.
_blobs = st.none() | st.binary(max_size=70) | st.sampled_from((b"x" * 9000, b"y" * 64, b""))
_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3)
_times = st.integers(-1, 2**45) | st.integers(1_700_000_000_000, 1_700_000_020_000)
_inputs = st.lists(st.tuples(_blobs, _blobs, _headers, _times), min_size=1, max_size=8)


def only(data: bytes) -> Batch:
    [batch] = split_batches(data)
    return batch


def as_records(inputs: Sequence[Input], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + index, timestamp, key, value, tuple(headers))
        for index, (key, value, headers, timestamp) in enumerate(inputs)
    ]


@settings(deadline=None, max_examples=80)
@given(_inputs, st.sampled_from(CODECS), st.integers(0, 2**62))
def test_round_trip(inputs: list[Input], codec: str, base_offset: int) -> None:
    data = encode_batch(
        inputs,
        base_offset=base_offset,
        compression=codec,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=2**31 - 1,
        leader_epoch=9,
    )
    batch = only(data)
    batch.check_crc()
    assert batch.records() == as_records(inputs, base_offset)
    header = batch.header
    assert (header.size, header.codec, header.record_count) == (len(data), codec, len(inputs))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        2**40,
        3,
        2**31 - 1,
    )
    assert header.partition_leader_epoch == 9
    assert header.max_timestamp == max(timestamp for *_, timestamp in inputs)
    assert header.next_offset == header.last_offset + 1 == base_offset + len(inputs)


@settings(deadline=None, max_examples=40)
@given(_inputs, st.sampled_from(("none", "gzip")))
def test_kafka_python_reads_ours(inputs: list[Input], codec: str) -> None:
    theirs = DefaultRecordBatch(encode_batch(inputs, base_offset=7, compression=codec))
    assert theirs.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs]
    assert read == as_records(inputs, 7)


@settings(deadline=None, max_examples=40)
@given(_inputs, st.sampled_from(("none", "gzip")), st.booleans())
def test_we_read_kafka_pythons(inputs: list[Input], codec: str, transactional: bool) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=transactional,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        batch_size=10**9,
    )
    for index, (key, value, headers, timestamp) in enumerate(inputs):
        builder.append(index, timestamp, key, value, list(headers))
    batch = only(bytes(builder.build()))
    batch.check_crc()
    assert batch.records() == as_records(inputs)
    assert batch.header.is_transactional == transactional
    assert not batch.header.is_control


def test_bytes_of_a_batch() -> None:
    """Worked by hand: one record, key null, value "v", header tm="s", one second after 1970."""
    data = encode_batch([(None, b"v", (("tm", b"s"),), 1000)], base_offset=3, leader_epoch=2)
    record = bytes.fromhex("18 00 00 00 01 02 76 02 04 74 6d 02 73")
    assert data[:8] == (3).to_bytes(8, "big")
    assert data[8:12] == (49 + len(record)).to_bytes(4, "big")
    assert data[12:17] == bytes.fromhex("00000002 02")
    assert data[17:21] == crc32c.crc32c(data[21:]).to_bytes(4, "big")
    assert data[21:27] == bytes(6)
    assert data[27:43] == (1000).to_bytes(8, "big") * 2
    assert data[43:57] == b"\xff" * 14
    assert data[57:61] == (1).to_bytes(4, "big")
    assert data[61:] == record


def test_builder_tells_its_size_as_it_grows() -> None:
    builder = BatchBuilder()
    assert (builder.count, builder.size, builder.max_timestamp) == (0, HEADER_SIZE, -1)
    sizes = [builder.append(b"k", b"v" * n, (), 1000 - n) for n in (1, 100, 10_000)]
    assert builder.count == 3
    assert sizes[-1] == builder.size == len(builder.build())
    assert sizes == sorted(sizes)
    assert builder.max_timestamp == 999
    first = builder.build(producer_id=1, producer_epoch=0, base_sequence=0)
    again = builder.build(producer_id=1, producer_epoch=1, base_sequence=0)
    assert only(first).records() == only(again).records()


def test_values_may_be_any_buffer() -> None:
    data = encode_batch([(bytearray(b"k"), memoryview(b"v"), [["h", b"x"]], 5)])  # type: ignore[list-item]  # lists as headers are let through
    assert only(data).records() == [Record(0, 5, b"k", b"v", (("h", b"x"),))]


def test_many_records_and_large_deltas() -> None:
    inputs: list[Input] = [(None, b"%d" % n, (), n * 10_000) for n in range(10_000)]
    assert only(encode_batch(inputs)).records() == as_records(inputs)


@pytest.mark.parametrize("size", [0, 63, 64, 8178, 8190, 8191, 8192, 8193])
def test_lengths_at_the_ends_of_the_varint_table(size: int) -> None:
    """The table of varints once held that of -1 (null) behind its last number, so a value of
    exactly 8192 bytes was written with the length of null, and the batch was corrupt."""
    blob = b"x" * size
    inputs: list[Input] = [
        (blob, None, (), 0),
        (None, blob, (), size),
        (None, None, (("h", blob),), 0),
        (blob, blob, (("h", blob), ("n", None)), size),
        (None, None, ((blob.decode(), b""),), 0),
        (None, None, tuple(("h", None) for _ in range(size)), -size),
    ]
    assert only(encode_batch(inputs)).records() == as_records(inputs)


def test_what_cannot_be_built_is_a_local_error() -> None:
    with pytest.raises(LocalProtocolError, match="needs a record"):
        BatchBuilder().build()
    builder = BatchBuilder()
    builder.append(None, None, (), 1)
    with pytest.raises(LocalProtocolError, match="no codec"):
        builder.build(compression="rar")
    with pytest.raises(LocalProtocolError, match="batch header"):
        builder.build(producer_epoch=2**15)
    with pytest.raises(LocalProtocolError, match="not Unicode"):
        builder.append(None, None, (("\ud800", None),), 1)
    assert builder.count == 1
    assert len(only(builder.build()).records()) == 1


def test_place_batch_leaves_the_crc_right() -> None:
    data = bytearray(b"head") + encode_batch([(b"k", b"v", (), 1)])
    place_batch(data, 4, 1000, 12)
    batch = only(bytes(data[4:]))
    batch.check_crc()
    assert batch.header.base_offset == batch.records()[0].offset == 1000
    assert batch.header.partition_leader_epoch == 12


def test_split_leaves_out_what_is_cut() -> None:
    """A broker fills an answer to the byte, so the last batch of a fetch is often cut."""
    batches = [encode_batch([(None, b"v" * 50, (), n)], base_offset=n) for n in range(3)]
    data = b"".join(batches)
    for cut in range(len(data) + 1):
        whole = cut // len(batches[0])
        assert [bytes(batch.data) for batch in split_batches(data[:cut])] == batches[:whole]


def test_log_append_time_and_control() -> None:
    data = bytearray(encode_batch([(b"\0\0\0\1", b"\0" * 6, (), 10), (None, None, (), 30)]))
    data[22] |= 0x28
    [first, second] = split_batches(data)[0].records()
    assert (first.timestamp, second.timestamp) == (30, 30)
    assert read_header(data).is_control
    assert read_header(data).is_log_append_time
    control = BatchBuilder()
    control.append(b"\0\0\0\1", b"", (), 1)
    header = read_header(control.build(transactional=True, control=True))
    assert header.is_control
    assert header.is_transactional


def test_crc_tells_any_changed_byte() -> None:
    data = bytearray(encode_batch([(b"key", b"value", (("tm", b"stamp"),), 1)]))
    for place in range(21, len(data)):
        data[place] ^= 0x10
        batch = Batch(read_header_unchecked(data), memoryview(data))
        with pytest.raises(CorruptRecordError, match="has CRC"):
            batch.check_crc()
        data[place] ^= 0x10
    split_batches(data)[0].check_crc()


def read_header_unchecked(data: bytearray) -> Any:
    good = read_header(encode_batch([(b"key", b"value", (("tm", b"stamp"),), 1)]))
    return good._replace(crc=int.from_bytes(data[17:21], "big"))


@pytest.mark.parametrize(
    ("place", "form", "value"),
    [
        (0, ">q", -1),
        (8, ">i", 48),
        (8, ">i", -1),
        (16, ">b", 1),
        (16, ">b", 3),
        (21, ">h", 5),
        (23, ">i", -1),
        (23, ">i", 0),
        (57, ">i", 3),
        (57, ">i", -1),
    ],
)
def test_impossible_headers(place: int, form: str, value: int) -> None:
    data = bytearray(encode_batch([(None, b"1", (), 1), (None, b"2", (), 1)]))
    struct.pack_into(form, data, place, value)
    with pytest.raises(CorruptRecordError):
        read_header(data)
    with pytest.raises(CorruptRecordError):
        split_batches(data)


def test_headers_need_room() -> None:
    data = encode_batch([(None, None, (), 1)])
    for pos in (-1, len(data) - 60, len(data), len(data) + 5):
        with pytest.raises(CorruptRecordError, match="no room"):
            read_header(data, pos)


def payload_of(*bodies: bytes) -> bytes:
    """A batch around records given as bytes, with a CRC that holds."""
    data = bytearray(encode_batch([(None, None, (), 1)] * max(1, len(bodies))))
    data[HEADER_SIZE:] = b"".join(bodies)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
    return bytes(data)


@pytest.mark.parametrize(
    "record",
    [
        "0c 00 00 00 01 01",  # ends before its headers
        "0c 00 00 00 01 01 00 00",  # a byte after the last record
        "0a 00 00 00 01 01 00",  # longer than it says
        "0e 00 00 00 01 01 00 00",  # shorter than it says
        "0b 00 00 00 01 01 00",  # negative length
        "0c 00 00 00 03 01 00",  # key of length -2
        "0c 00 00 00 01 05 00",  # value of length -3
        "0c 00 00 00 01 01 01",  # -1 headers
        "10 00 00 00 01 01 02 01 00",  # header without a key
        "12 00 00 00 01 01 02 02 ff 00",  # header key that is not UTF-8
        "12 00 00 00 01 01 02 02 61 03",  # header value of length -2
        "0c 00 00 02 01 01 00",  # an offset after the batch's last
        "0c 00 00 01 01 01 00",  # an offset before its first
        "7e 00 00 00 fe ff ff ff 0f",  # key of 2 GB
        "80 80 80 80 80 80 80 80 80 80 80",  # varint without end
        "",
    ],
)
def test_bad_records(record: str) -> None:
    batch = only(payload_of(bytes.fromhex(record)))
    batch.check_crc()
    with pytest.raises(CorruptRecordError):
        batch.records()


def test_the_smallest_record() -> None:
    """What the bad records above are one step away from."""
    assert only(payload_of(bytes.fromhex("0c 00 00 00 01 01 00"))).records() == as_records(
        [(None, None, (), 1)]
    )


def test_a_count_that_the_bytes_cannot_hold() -> None:
    data = bytearray(encode_batch([(None, None, (), 1)]))
    struct.pack_into(">i", data, 23, 2**31 - 1)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    with pytest.raises(CorruptRecordError, match="cannot stand"):
        split_batches(data)[0].records()


def test_records_are_bounded() -> None:
    data = encode_batch([(None, bytes(100_000), (), 1)], compression="zstd")
    assert len(only(data).records(max_size=200_000)) == 1
    with pytest.raises(CorruptRecordError, match="size allowed"):
        only(data).records(max_size=50_000)


def test_header_names_come_from_anywhere_without_piling_up() -> None:
    """Names of headers are kept to save encoding them again; a producer that makes them up must
    not fill the memory with them."""
    from tallymark.protocol.records import reader as record_reader
    from tallymark.protocol.records import writer as record_writer

    for n in range(1500):
        inputs: list[Input] = [(None, None, ((f"name-{n}", b""),), 1)]
        assert only(encode_batch(inputs)).records() == as_records(inputs)
    assert len(record_writer._header_keys) <= 1024
    assert len(record_reader._header_keys) <= 1024
