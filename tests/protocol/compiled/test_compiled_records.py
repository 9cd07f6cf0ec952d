"""The compiled loops read what the pure path reads, and refuse what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile_records import BASES, records
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    encode_batch,
    iterate_batches,
)
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compiled import batch_loop, kernel, layout, record_loop
from tallymark.protocol.records.compiled.primitives import is_utf8, varint
from tallymark.protocol.records.compiled.unpack import unpack_batches
from tallymark.protocol.records.reader import read_headers
from tallymark.protocol.varint import encode_uvarint, encode_varint

pytest.importorskip("numba")

Facts = list[tuple[Any, ...]]
SEEDS = st.integers(0, 2**64)
_64 = range(-(2**63), 2**63)


@pytest.fixture(scope="module", params=["as Python", "compiled"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """The functions of the kernel: as Python runs them, and as numba compiles them."""
    if request.param == "compiled":
        kernel.warm()
        assert kernel.KERNEL.wait(250)
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        functions = (batch_loop.find_batches, record_loop.read_batches, record_loop.read_one)
        plain = {function.__name__: function for function in functions}
        patch.setattr(kernel.KERNEL, "_compiled", plain)
        patch.setattr(kernel, "byte_array", bytes)  # numbers of eight bits would not add up
        yield


def as_the_pure_path_reads(columns: RecordColumns) -> Facts:
    facts = (
        columns.offsets,
        columns.timestamps,
        columns.keys(),
        columns.values(),
        columns.headers(),
        columns.last_headers("tm"),
        columns.sizes(),
    )
    return list(zip(*facts, strict=True))


def as_the_kernel_reads(data: bytes, columns: kernel.IntArray) -> Facts:
    def cut(pos: int, size: int) -> bytes | None:
        return None if size < 0 else data[pos : pos + size]

    found: Facts = []
    for row in columns.T.tolist():
        assert len(row) == layout.COLUMNS
        offset, timestamp, _, key, key_size, value, value_size, headers, *stamp, size = row
        found.append(
            (
                offset,
                timestamp,
                cut(key, key_size),
                cut(value, value_size),
                read_headers(data, headers)[0],
                cut(*stamp),
                size,
            )
        )
    return found


def same(payload: bytes, count: int, base_offset: int, base: int, timestamp: int | None) -> bool:
    """Whether the records were read; the assertions are that both paths say the same."""
    where = (count, base_offset, base, timestamp)
    compiled = kernel.record_columns(payload, *where)
    try:
        pure = as_the_pure_path_reads(RecordColumns(payload, *where))
    except CorruptRecordError:
        assert compiled is None
        return False
    if compiled is None:
        assert any(fact[0] not in _64 or fact[1] not in _64 for fact in pure)
        return False
    assert as_the_kernel_reads(payload, compiled) == pure
    places = compiled[layout.RECORD].tolist()
    assert places[:1] in ([], [0])
    assert sorted(set(places)) == places
    return True


def exactly(records: int) -> kernel.IntArray:
    """A table without the room that the usual ones have beyond."""
    return np.empty((layout.COLUMNS, records), np.int64)


def try_one(seed: int) -> bool:
    random = Random(seed)
    payload, count = records(random)
    base_offset, base = random.choice(BASES), random.choice(BASES)
    timestamp = random.choice((None, None, *BASES))
    return same(payload, count, base_offset, base, timestamp)


@pytest.mark.usefixtures("loops")
@settings(max_examples=1500, deadline=None)
@given(SEEDS)
@pytest.mark.slow
def test_records_are_read_and_refused_as_by_the_pure_path(seed: int) -> None:
    try_one(seed)


@pytest.mark.usefixtures("loops")
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(-1, 6))
def test_random_bytes_are_read_and_refused_as_by_the_pure_path(payload: bytes, count: int) -> None:
    same(payload, count, 0, 0, None)


@pytest.mark.usefixtures("loops")
def test_the_seeds_have_what_is_read_and_what_is_refused() -> None:
    """So that the properties above are about both."""
    read = sum(try_one(seed) for seed in range(600))
    assert 150 < read < 450


@pytest.mark.soak
def test_a_million_batches_are_read_and_refused_as_by_the_pure_path() -> None:
    kernel.warm()
    assert kernel.KERNEL.wait(250)
    read = sum(try_one(seed) for seed in range(1_000_000))
    assert 300_000 < read < 700_000


def record(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


GOOD = record(b"\0\0\0\1\1\0")
HUGE = encode_varint(2**31)
LONG = b"\x80" * 9 + b"\0"  # 0 in ten bytes: as many as there may be


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("payload", "count", "is_read"),
    [
        (b"", 0, True),
        (GOOD, 1, True),
        (GOOD, 0, False),
        (GOOD, 2, False),
        (GOOD, 2**31 - 1, False),
        (GOOD + b"\0", 1, False),
        (GOOD[:-1], 1, False),
        (record(b"\0\0\0\1\1" + HUGE), 1, False),  # 2^31 headers
        (record(b"\0\0\0\1\1" + encode_varint(2**63 - 1)), 1, False),
        (record(b"\0\0\0\1\1" + encode_varint(-1)), 1, False),
        (record(b"\0\0\0\1" + HUGE + b"\0"), 1, False),
        (record(b"\0\0\0" + encode_varint(2**63 - 1) + b"\1\0"), 1, False),
        (record(b"\0\0\0" + encode_varint(-(2**63)) + b"\1\0"), 1, False),
        (record(b"\0\0\0" + encode_varint(-2) + b"\1\0"), 1, False),
        (encode_varint(2**63 - 1) + GOOD[1:], 1, False),
        (encode_varint(-(2**63)) + GOOD[1:], 1, False),
        (record(b"\0\0\0\x81\0\1\0"), 1, True),  # null in two bytes
        (record(b"\0" + LONG + b"\0\1\1\0"), 1, True),
        (record(b"\0\x80" + LONG + b"\0\1\1\0"), 1, False),
        (record(b"\0" + encode_varint(2**63 - 1) + b"\0\1\1\0"), 1, True),
        (record(b"\0" + b"\xff" * 9 + b"\2\0\1\1\0"), 1, False),  # 65 bits
        (record(b"\0\0\0\1\1\2\4tm\1"), 1, True),
        (record(b"\0\0\0\1\1\4\4tm\1\4tm\2x"), 1, True),
        (record(b"\0\0\0\1\1\2\1\1"), 1, False),  # a header without a name
        (record(b"\0\0\0\1\1\2\6\xed\xa0\x80\1"), 1, False),  # a surrogate
        (record(b"\0\0\0\1\1\2\4tm\3"), 1, False),
        (record(b"\0\0\0\1\1\2\4tm" + HUGE), 1, False),
        (record(b"\0\0\0\1\1\2" + encode_varint(2**63 - 1) + b"tm\1"), 1, False),
    ],
)
def test_what_is_at_the_edge(payload: bytes, count: int, is_read: bool) -> None:
    assert same(payload, count, 0, 0, None) == is_read


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("delta", [1, -1, 2**63 - 1, -(2**63)])
def test_sums_beyond_64_bits_are_left_to_the_pure_path(delta: int) -> None:
    late = record(b"\0" + encode_varint(delta) + b"\0\1\1\0")
    base = 2**63 - 1 if delta > 0 else -(2**63)
    assert kernel.record_columns(late, 1, 0, base) is None
    assert RecordColumns(late, 1, 0, base).timestamps == [base + delta]
    assert same(late, 1, 0, base, 5)  # which the broker's time replaces
    far = record(b"\0\0" + encode_varint(delta) + b"\1\1\0")
    assert kernel.record_columns(far, 1, base, 0) is None


@given(st.binary(max_size=9) | st.text(max_size=5).map(str.encode))
def test_names_are_text_where_python_decodes_them(raw: bytes) -> None:
    assert is_utf8(raw, 0, len(raw)) == decodes(raw)


def test_every_beginning_of_a_name_is_text_where_python_decodes_it() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x100):
            for rest in (b"", b"\x80", b"\x80\x80", b"\xbf\xbfa", b"\x7f"):
                raw = bytes((first, second)) + rest
                assert is_utf8(raw, 0, len(raw)) == decodes(raw), raw


def decodes(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 12))
def test_numbers_are_read_within_their_end(value: int, cut: int) -> None:
    raw = encode_varint(value)
    assert varint(raw + b"\xff", 0, len(raw)) == (value, len(raw))
    assert varint(raw, 0, max(0, len(raw) - 1 - cut))[1] == -1
    wide = encode_uvarint((value << 1 ^ value >> 63) & 2**64 - 1)
    assert wide == raw


# --- whole fetches


def a_fetch(random: Random, damaged: bool) -> bytes:
    """Some batches one after the other, with gaps, markers and broken ones; the last may be cut."""
    parts: list[bytes] = []
    offset = random.choice((0, 1000, 2**62))
    for _ in range(random.randrange(6)):
        count = random.randrange(1, 9)
        rows = [
            (None, bytes(random.randrange(90)), [("tm", b"s" * 17)], random.randrange(9))
            for _ in range(count)
        ]
        codec = random.choice(("none", "none", "lz4", "zstd", "gzip", "snappy"))
        batch = bytearray(encode_batch(rows, base_offset=offset, compression=codec))
        if random.random() < 0.3:
            batch[22] |= random.choice((0x08, 0x10, 0x30))  # append time, transactional, control
        if damaged and random.random() < 0.5:
            start = random.choice((0, HEADER_SIZE))
            batch[random.randrange(start, len(batch))] ^= 1 << random.randrange(8)
        parts.append(bytes(batch))
        offset += count + random.choice((0, 0, 5))
    data = b"".join(parts)
    return data[: len(data) - random.choice((0, 0, 1, 30, 70))] if data else data


def batches_or_error(data: bytes) -> tuple[list[Batch], bool]:
    found: list[Batch] = []
    try:
        found.extend(iterate_batches(data))
    except CorruptRecordError:
        return found, True
    return found, False


@pytest.mark.usefixtures("loops")
@settings(max_examples=300, deadline=None)
@given(SEEDS, st.booleans(), st.sampled_from([8, 20, 1000]), st.sampled_from([1, 300, 1 << 20]))
def test_a_fetch_is_read_as_batch_by_batch(
    seed: int, damaged: bool, room: int, at_most: int
) -> None:
    data = a_fetch(Random(seed), damaged)
    pure, refused = batches_or_error(data)
    batches, columns = kernel.batch_table(10), exactly(room)
    found = kernel.find_batches(data, 0, batches)
    batches = batches[:found]
    assert found == len(pure)
    end = int(batches[-1, layout.NEXT]) if found else 0
    rest, error = batches_or_error(data[end:])
    assert rest == []
    assert error == refused
    for row, batch in zip(batches.tolist(), pure, strict=True):
        header = batch.header
        assert row[layout.COUNT] == header.record_count
        assert row[layout.LAST_OFFSET] == header.last_offset
        assert row[layout.CRC] == header.crc
        assert row[layout.POSITION] + header.size == row[layout.END] == row[layout.NEXT]
        assert row[layout.LEADER_EPOCH : layout.BASE_SEQUENCE + 1] == [
            header.partition_leader_epoch,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        ]
    first, scratch, unpacked = 0, b"", 0
    while first < found:
        if first == unpacked:
            some, number = unpack_batches(data, batches[first:], at_most)
            scratch, unpacked = bytes(some), first + number
            assert unpacked > first
        done = kernel.read_batches(data, scratch, batches[:unpacked], first, columns)
        if done == first:  # a header may say so
            assert batches[first, layout.COUNT] > room
            columns = exactly(int(batches[first, layout.COUNT]))
            continue
        for number in range(first, done):
            same_batch(pure[number], batches[number], columns, data, scratch)
        first = done


def same_batch(
    batch: Batch, row: kernel.IntArray, columns: kernel.IntArray, data: bytes, scratch: bytes
) -> None:
    try:
        pure = as_the_pure_path_reads(batch.columns(batch.usual_max_size))
    except CorruptRecordError:
        assert row[layout.BREAK] != layout.WHOLE
        assert not row[layout.ROWS]
        return
    if row[layout.BREAK] == layout.BEYOND_64_BITS:
        assert any(fact[0] not in _64 or fact[1] not in _64 for fact in pure)
        return
    assert row[layout.BREAK] == layout.WHOLE
    at, rows = int(row[layout.ROW]), int(row[layout.ROWS])
    source = scratch if row[layout.SCRATCH] else data
    assert as_the_kernel_reads(source, columns[:, at : at + rows]) == pure


def one_batch(count: int, **places: int) -> tuple[bytes, kernel.IntArray]:
    data = encode_batch([(None, b"v", (), n) for n in range(count)])
    batches = kernel.batch_table(1)
    assert kernel.find_batches(data, 0, batches) == 1
    for name, value in places.items():
        batches[0, getattr(layout, name)] = value
    return data, batches


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("places", "kind"),
    [
        ({"START": -1}, layout.OUTSIDE),
        ({"END": 2**63 - 1}, layout.OUTSIDE),
        ({"START": 90, "END": 80}, layout.OUTSIDE),
        ({"START": -(2**63), "END": 2**63 - 1}, layout.OUTSIDE),
        ({"SCRATCH": 1}, layout.OUTSIDE),
        ({"COUNT": 2**63 - 1}, layout.TOO_MANY),
        ({"COUNT": -(2**63)}, layout.BYTES_LEFT),
        ({"COUNT": 2}, layout.BYTES_LEFT),
        ({"COUNT": 4}, layout.TOO_MANY),
        ({"LAST_OFFSET": 1}, layout.OFFSET_OUTSIDE),
        ({"START": HEADER_SIZE + 1}, layout.BAD_NUMBER),
        ({"END": HEADER_SIZE + 22}, layout.RUNS_OVER),
    ],
)
def test_places_that_cannot_be_are_a_break(places: dict[str, int], kind: int) -> None:
    """The tables are written by others, too: no number in them may lead out of a buffer."""
    data, batches = one_batch(3, **places)
    assert kernel.read_batches(data, b"", batches, 0, exactly(10)) == 1
    assert batches[0, [layout.BREAK, layout.ROWS]].tolist() == [kind, 0]


@pytest.mark.parametrize("count", [0, 3])
def test_what_does_not_decompress_is_read_by_nobody(count: int) -> None:
    """Also where the header has no records: an empty scratch buffer has as many."""
    batch = bytearray(encode_batch([(None, b"v", (), 0)] * 3, compression="zstd"))
    batch[57:61] = count.to_bytes(4, "big")
    batch[HEADER_SIZE:] = b"garbage"
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batches = kernel.batch_table(1)
    kernel.warm()
    assert kernel.KERNEL.wait(250)
    assert kernel.find_batches(batch, 0, batches) == 1
    scratch, number = unpack_batches(batch, batches, 1 << 20)
    assert (bytes(scratch), number) == (b"", 1)
    assert kernel.read_batches(batch, scratch, batches, 0, exactly(9)) == 1
    assert batches[0, layout.BREAK] == layout.OUTSIDE


@pytest.mark.usefixtures("loops")
def test_a_table_without_room_is_said() -> None:
    data, batches = one_batch(3)
    assert kernel.read_batches(data, b"", batches, 0, exactly(2)) == 0
    assert kernel.read_batches(data, b"", batches, 0, exactly(3)) == 1
    assert kernel.read_batches(data, b"", batches, 1, exactly(3)) == 1
    assert kernel.read_batches(data, b"", batches, 2**40, exactly(3)) == 1


@pytest.mark.parametrize("records", [0, 1, 48, 49, 500, 512, 65_536])
def test_columns_do_not_share_places_in_the_cache_of_a_processor(records: int) -> None:
    """A table of 65,536 records was read at two thirds of the speed of one of 65,584."""
    table = kernel.column_table(records)
    assert records <= table.shape[1] < records + 512
    assert table.strides[0] % 4096 == 384


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("call", ["batches", "columns", "first", "found", "from"])
def test_tables_of_another_shape_are_refused(call: str) -> None:
    data, batches = one_batch(3)
    columns, narrow = exactly(3), np.zeros((5, 3), np.int64)
    calls: dict[str, Callable[[], object]] = {
        "batches": lambda: kernel.read_batches(data, b"", narrow, 0, columns),
        "columns": lambda: kernel.read_batches(data, b"", batches, 0, narrow),
        "first": lambda: kernel.read_batches(data, b"", batches, -1, columns),
        "found": lambda: kernel.find_batches(data, 0, narrow),
        "from": lambda: kernel.find_batches(data, -1, batches),
    }
    with pytest.raises(ValueError, match="table"):
        calls[call]()


def test_other_types_are_refused() -> None:
    """Compiled code takes what it was compiled for: nothing is compiled again for another type."""
    kernel.warm()
    assert kernel.KERNEL.wait(250)
    data, table = encode_batch([(None, b"v", (), 0)]), kernel.batch_table(9)
    tables: list[Any] = [table.astype(np.int32), table.T, table[:, ::2], table[0]]
    for wrong in tables:
        with pytest.raises(TypeError):
            kernel.find_batches(data, 0, wrong)
