"""What the walk over records lets pass, the readers read; whatever writers make, it lets pass."""

from __future__ import annotations

import importlib
import zlib
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records import check as record_check
from tallymark.protocol.records import walk as record_walk
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch, read_header
from tallymark.protocol.records.check import (
    BadRecordError,
    check_count,
    check_records,
    greatest_delta,
    keyless_records,
    untimely_records,
)
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.protocol.varint import encode_varint

try:
    _COMPILED = [importlib.import_module("tallymark.protocol.records.walk_compiled")]
except ImportError:
    _COMPILED = []
KERNELS = [record_walk, *_COMPILED]

BYTES = st.none() | st.binary(max_size=80)
ROWS = st.lists(
    st.tuples(
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=80,
)
Rows = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]]


@pytest.fixture(params=KERNELS, ids=lambda module: module.__name__.rpartition(".")[2])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = request.param
    monkeypatch.setattr(record_check, "_kernel", module)
    return module  # type: ignore[no-any-return]


def payload_of(rows: Rows) -> bytes:
    return encode_batch(rows)[HEADER_SIZE:]


def read(payload: bytes, count: int) -> RecordColumns:
    columns = RecordColumns(payload, count, 0, 0)
    columns.records()
    return columns


def passes(module: ModuleType, payload: bytes, count: int) -> bool:
    wrong, _, _, _ = module.walk(payload, 0, count, count - 1, count)
    return bool(wrong == record_walk.WHOLE)


@pytest.mark.parametrize("module", KERNELS)
@given(ROWS)
def test_what_our_writers_make_passes(module: ModuleType, rows: Rows) -> None:
    assert passes(module, payload_of(rows), len(rows))


@pytest.mark.parametrize("module", KERNELS)
@given(ROWS)
def test_what_other_peoples_writers_make_passes(module: ModuleType, rows: Rows) -> None:
    """The encoder of kafka-python, which follows Java's."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for number, (key, value, headers, at) in enumerate(rows):
        assert builder.append(number, at, key, value, headers) is not None
    batch = bytes(builder.build())
    assert passes(module, batch[HEADER_SIZE:], len(rows))


@pytest.mark.slow
@pytest.mark.parametrize("module", KERNELS)
@settings(max_examples=300)
@given(ROWS, st.integers(0, 2**32))
def test_a_changed_batch_is_refused_or_can_be_read(
    module: ModuleType, rows: Rows, seed: int
) -> None:
    """There is no third case: what passes has the records that it says, at their offsets."""
    random = Random(seed)
    changed, count = bytearray(payload_of(rows)), len(rows)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed))
        match random.randrange(5):
            case 0:
                changed[at] = random.randrange(256)
            case 1:
                changed[at] ^= 1 << random.randrange(8)
            case 2:
                del changed[at : at + random.randint(1, 4)]
            case 3:
                changed[at:at] = random.randbytes(random.randint(1, 4))
            case _:
                count = max(1, count + random.choice((-1, 1)))
        if not changed:
            return
    payload = bytes(changed)
    if passes(module, payload, count):
        assert list(read(payload, count).offsets) == list(range(count))
    else:
        with pytest.raises(BadRecordError):
            check_records(payload, count, count - 1)


@pytest.mark.parametrize("module", KERNELS)
@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=60), st.integers(1, 5))
def test_random_bytes_are_refused_or_can_be_read(
    module: ModuleType, payload: bytes, count: int
) -> None:
    if passes(module, payload, count):
        assert list(read(payload, count).offsets) == list(range(count))


@settings(max_examples=200)
@given(ROWS, st.integers(0, 2**32), st.integers(0, 90))
@pytest.mark.slow
def test_both_kernels_say_the_same(rows: Rows, seed: int, looked: int) -> None:
    random = Random(seed)
    changed = bytearray(payload_of(rows))
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    arguments = (len(rows), len(rows) - 1, looked)
    for payload in (payload_of(rows), bytes(changed)):
        said = {module.walk(payload, 0, *arguments) for module in KERNELS}
        assert len(said) == 1
        if passes(record_walk, payload, len(rows)):
            scans = [module.scan(payload, len(rows), True, 0, -5, 5, 9) for module in KERNELS]
            assert all(each == scans[0] for each in scans)
            found = [module.search(payload, len(rows), 1, 5, False) for module in KERNELS]
            assert all(each == found[0] for each in found)


def test_the_compiled_kernel_is_of_this_source() -> None:
    """A developer changed the walk and measured the old one: the copy that was compiled before
    stays beside the source until it is made again."""
    if not _COMPILED:
        pytest.skip("the kernel is not compiled here: make kernel")
    source = Path(record_walk.__file__).read_bytes()
    assert zlib.crc32(source) == _COMPILED[0].SOURCE, "run make kernel"


@settings(max_examples=200)
@given(ROWS, st.integers(0, 2**32), st.integers(1, 120))
@pytest.mark.slow
def test_a_walk_in_pieces_says_the_same(rows: Rows, seed: int, piece: int) -> None:
    """Large batches are walked over piece by piece, and a record may be longer than a piece."""
    random = Random(seed)
    changed = bytearray(payload_of(rows))
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    for payload in (payload_of(rows), bytes(changed)):
        said: list[str] = []
        for most in (1 << 20, piece):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(record_check, "_PIECE", most)
                try:
                    check_records(b"head" + payload, len(rows), len(rows) - 1, start=4)
                    said.append("whole")
                except BadRecordError as error:
                    said.append(f"refused {error.record}")
        assert said[0] == said[1]


def record(*, key: bytes = b"\1", value: bytes = b"\1", headers: bytes = b"\0") -> bytes:
    body = b"\0\0\0" + key + value + headers
    return encode_varint(len(body)) + body


@pytest.mark.parametrize(
    ("payload", "count", "why", "at"),
    [
        (bytes(200), 28, "fields do not end where its length says", 0),
        (record(key=encode_varint(5000)), 1, "key is longer than the record", 0),
        (record(value=encode_varint(-2)), 1, "value is longer .* impossible length", 0),
        (record(headers=encode_varint(2**31 - 1)), 1, "headers are more or longer", 0),
        (record(headers=encode_varint(-1)), 1, "headers are more or longer", 0),
        (record(headers=b"\2\2\xff\1"), 1, "key of a header is no UTF-8", 0),
        (record(headers=b"\2\1\1"), 1, "key of a header", 0),
        (record() * 2, 2, "offset is not the next one", 1),
        (record(), 2, "runs over the end", 1),
        (record()[:-1], 1, "runs over the end", 0),
        (record() + b"\0", 1, "bytes follow the last of 1 records", None),
        (b"\xff" * 30, 1, "number without an end", 0),
    ],
)
def test_what_is_wrong_is_said(
    kernel: ModuleType, payload: bytes, count: int, why: str, at: int | None
) -> None:
    with pytest.raises(BadRecordError, match=why) as error:
        check_records(payload, count, count - 1)
    assert error.value.record == at
    if "offset" not in why:
        with pytest.raises(CorruptRecordError):
            read(payload, count)


def test_fields_that_go_beyond_their_record_are_refused(kernel: ModuleType) -> None:
    """The walk looks for the end of a record once, behind its last field: until there it may read
    bytes of the next record, and what they seem to say must not matter."""
    fields = encode_varint(-300) + b"\0" + b"\6key" + b"\x0avalue" + b"\4\2h\4xx\2i\1"
    whole = b"\0" + fields
    for short in range(1, len(whole) + 1):
        first = encode_varint(len(whole) - short) + whole
        for second in (b"", record(), b"\xff" * 20, bytes(20)):
            with pytest.raises(BadRecordError) as error:
                check_records(first + second, 2, 1)
            assert error.value.record == 0, f"{short} bytes short"
    after = record()
    check_records(encode_varint(len(whole)) + whole + after[:3] + b"\2" + after[4:], 2, 1)


def test_a_number_that_has_no_end_is_said(kernel: ModuleType) -> None:
    """In each field that is one, whatever follows it."""
    endless = b"\xff" * 11
    fields = [encode_varint(5), b"\0", b"\6key", b"\x0avalue", b"\2", b"\2h", b"\4xx"]
    for at in range(len(fields)):
        body = b"\0" + b"".join(fields[:at]) + endless
        for behind in (b"", b"\0" * 9):
            payload = encode_varint(len(body + behind)) + body + behind
            with pytest.raises(BadRecordError, match="number without an end"):
                check_records(payload, 1, 0)


def test_records_that_a_compaction_left_have_offsets_of_their_own(kernel: ModuleType) -> None:
    first, second = record(), bytearray(record())
    second[3] = 2 * 7  # its offset delta
    check_records(first + second, 2, 7)
    check_records(first + second, 2, 9)
    for payload, last in ((first + second, 6), (first + first, 7), (second + first, 7)):
        with pytest.raises(BadRecordError, match="offset"):
            check_records(payload, 2, last)


@pytest.mark.parametrize("codec", CODECS)
def test_no_codec_holds_more_than_is_believed(codec: str) -> None:
    """Zeros are what compresses best."""
    packed = compress(codec, bytes(64 << 20))
    check_count(codec, len(packed), (64 << 20) // 7)
    with pytest.raises(BadRecordError, match="2147483647 records cannot stand in 200 bytes"):
        check_count(codec, 200, 2**31 - 1)


@given(ROWS)
def test_what_stands_in_records_is_found_without_reading_them(rows: Rows) -> None:
    data = encode_batch(rows)
    header = read_header(data)
    payload, base = data[HEADER_SIZE:], header.base_timestamp
    times = [at for _, _, _, at in rows]
    keyless = [n for n, row in enumerate(rows) if row[0] is None]
    assert keyless_records(payload, len(rows), 3) == keyless[:3]
    assert base + greatest_delta(payload, len(rows)) == max(times)
    oldest, newest = sorted((times[0], times[-1]))
    wrong = [(n, at) for n, at in enumerate(times) if not oldest <= at <= newest]
    assert untimely_records(payload, len(rows), base, oldest, newest, 100) == wrong


def test_records_without_a_timestamp_are_not_late(kernel: ModuleType) -> None:
    payload = encode_batch([(None, b"", (), at) for at in (-1, 5, 100)])[HEADER_SIZE:]
    assert untimely_records(payload, 3, -1, 50, 200, 9) == [(1, 5)]
