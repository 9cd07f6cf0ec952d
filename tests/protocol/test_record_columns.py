"""Reading records by columns says what the format's declaration says, record by record: for
records of one shape, of many, for broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError, ProtocolError
from tallymark.protocol.records import runs as record_runs
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.records.columns import RecordColumns, joined
from tallymark.protocol.records.reader import Record
from tallymark.protocol.varint import decode_varint, encode_varint

BASE_OFFSET, BASE_TIMESTAMP = 1000, 1_700_000_000_000


def declared(data: bytes, count: int) -> list[Record]:
    """The records as the format draws them, one varint after the other. ProtocolError or IndexError
    when they are not exactly ``count``."""
    pos = 0

    def number() -> int:
        nonlocal pos
        value, pos = decode_varint(data, pos)
        return value

    def sized() -> bytes | None:
        nonlocal pos
        size = number()
        if size < -1 or pos + size > len(data):
            raise CorruptRecordError(f"length {size}")
        start, pos = pos, pos + max(0, size)
        return None if size < 0 else data[start:pos]

    found: list[Record] = []
    for _ in range(count):
        end = number() + pos
        pos += 1
        timestamp, offset, key, value = number(), number(), sized(), sized()
        headers: list[tuple[str, bytes | None]] = []
        number_of_headers = number()
        if number_of_headers < 0:
            raise CorruptRecordError("headers")
        for _ in range(number_of_headers):
            name, content = sized(), sized()
            if name is None:
                raise CorruptRecordError("a header without a name")
            headers.append((name.decode(), content))
        if pos != end:
            raise CorruptRecordError("end")
        found.append(
            Record(BASE_OFFSET + offset, BASE_TIMESTAMP + timestamp, key, value, tuple(headers))
        )
    if pos != len(data):
        raise CorruptRecordError("rest")
    return found


def columns(data: bytes, count: int, timestamp: int | None = None) -> RecordColumns:
    return RecordColumns(data, count, BASE_OFFSET, BASE_TIMESTAMP, timestamp)


def same(data: bytes, count: int) -> None:
    """Both readers see the same, or refuse both."""
    try:
        wanted = declared(data, count)
    except (ProtocolError, IndexError, UnicodeDecodeError):
        with pytest.raises(CorruptRecordError):
            columns(data, count)
        return
    found = columns(data, count)
    assert found.records() == wanted
    assert list(found.offsets) == [record.offset for record in wanted]
    timestamps = [record.timestamp for record in wanted]
    assert list(found.timestamps) == timestamps
    bounds = (min(timestamps, default=0), max(timestamps, default=0))
    assert found.timestamp_bounds() == bounds
    assert found.keys() == [record.key for record in wanted]
    assert found.values() == [record.value for record in wanted]
    assert found.headers() == [record.headers for record in wanted]
    sizes = [len(record.key or b"") + len(record.value or b"") for record in wanted]
    assert found.sizes() == sizes
    assert found.total_size() == sum(sizes)
    for name in {name for record in wanted for name, _ in record.headers} | {"no such"}:
        values = [[value or b"" for n, value in record.headers if n == name] for record in wanted]
        assert found.last_headers(name) == [some[-1] if some else None for some in values]
    assert len(found) == count


def record(
    timestamp: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[bytes, bytes | None]],
    attributes: int = 0,
) -> bytes:
    body = bytes((attributes,)) + encode_varint(timestamp) + encode_varint(offset)
    body += _sized(key) + _sized(value) + encode_varint(len(headers))
    body += b"".join(_sized(name) + _sized(content) for name, content in headers)
    return encode_varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


_key = st.sampled_from([None, b"", b"key", b"k" * 64])
_value = st.sampled_from([None, b"", b"v" * 30, b"w" * 30, b"x" * 200])
_headers = st.sampled_from(
    [
        (),
        ((b"tm", b"0123456789abcdef"),),
        ((b"tm", b"fedcba9876543210"),),
        ((b"tn", b"0123456789abcdef"),),
        ((b"tm", b"0123456789abcdef!"),),
        ((b"tm", None),),
        ((b"", b""),),
        ((b"a" * 70, b"b"),),
        ((b"tm", b"s" * 70),),
        ((b"a", b"1"), ("ü".encode(), None), (b"c", b"3")),
    ]
)
_stretch = st.tuples(
    st.integers(1, 70),  # records of this shape
    _key,
    _value,
    _headers,
    st.sampled_from([0, 1, 3, 63, 64, 5000, 9000, 2**33, -1, -70]),  # between two timestamps
    st.sampled_from([1, 1, 1, 2, 64]),  # between two offsets
)


@settings(deadline=None, max_examples=50)
@given(st.lists(_stretch, max_size=5), st.integers(0, 9000), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_stretches_of_many_shapes(
    stretches: list[tuple[Any, ...]], first: int, random: Random
) -> None:
    data, count, timestamp, offset = b"", 0, 0, first
    for number, key, value, headers, step, skip in stretches:
        for _ in range(number):
            if random.random() < 0.02:
                value = random.randbytes(random.randrange(80))
            data += record(timestamp, offset, key, value, headers, random.choice((0, 0, 7)))
            timestamp, offset, count = timestamp + step, offset + skip, count + 1
    same(data, count)
    same(data, count + 1)
    same(data, max(0, count - 1))
    _broken(data, count, random)


def _broken(data: bytes, count: int, random: Random) -> None:
    """A few bytes are others, or missing, or too many: each record is looked at all the same."""
    for _ in range(6 if data else 0):
        bad = bytearray(data)
        at = random.randrange(len(bad))
        match random.randrange(4):
            case 0:
                bad[at] ^= 1 << random.randrange(8)
            case 1:
                bad[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del bad[at : at + random.randrange(1, 4)]
            case _:
                bad[at:at] = random.randbytes(random.randrange(1, 4))
        same(bytes(bad), count)


@pytest.mark.parametrize("count", [7, 8, 9, 63, 64, 65, 200, 8191, 8192, 8193, 12_000])
def test_what_a_producer_writes_is_read_in_runs(count: int) -> None:
    stamps = [(("tm", b"\1instance\0%d" % n),) for n in range(count)]
    batch = split_batches(
        encode_batch([(b"%08d" % n, b"v" * 50, stamps[n], n // 4) for n in range(count)])
    )[0]
    found = batch.columns()
    assert found.offsets == range(count)
    assert found.keys() == [b"%08d" % n for n in range(count)]
    assert found.values() == [b"v" * 50] * count
    assert found.timestamps == [n // 4 for n in range(count)]
    assert found.headers() == stamps
    if count >= record_runs.LEAST:
        assert any(isinstance(part, record_runs.RecordRun) for part in found._parts)


def test_a_shape_that_is_known_is_not_believed_of_other_records() -> None:
    """Shapes are remembered by the first bytes of a record; another batch may begin likewise and
    be of another shape, up to one whose fields only end elsewhere."""
    first = [(b"key", b"value", (), 0)] * 40
    second = [(b"ke", b"yvalue", (), 0)] * 40
    third = [(None, b"keyvalu", (("", None),), 0)] * 10 + first
    for inputs in (first, second, third, first, second):
        batch = split_batches(encode_batch(inputs))[0]
        assert [r[2:5] for r in batch.records()] == [tuple(one[:3]) for one in inputs]


def test_shapes_do_not_pile_up() -> None:
    for size in range(700):
        batch = split_batches(encode_batch([(None, b"x" * size, (), 0)] * 10))[0]
        assert len(batch.columns().values()) == 10
    assert len(record_runs._shapes) <= 256


def test_the_log_append_time_stands_for_all() -> None:
    data = b"".join(record(n, n, None, b"v", ()) for n in range(20))
    assert columns(data, 20, timestamp=5).timestamps == [5] * 20


def test_since_leaves_out_what_is_before() -> None:
    whole = columns(b"".join(record(n, n, None, b"%d" % n, ()) for n in range(100)), 100)
    assert whole.since(BASE_OFFSET) is whole
    for start in (1, 50, 99, 100, 200):
        rest = whole.since(BASE_OFFSET + start)
        assert list(rest.offsets) == list(range(BASE_OFFSET + start, BASE_OFFSET + 100))
        assert rest.values() == [b"%d" % n for n in range(start, 100)]
        assert rest.timestamps == [BASE_TIMESTAMP + n for n in range(start, 100)]
        assert len(rest.since(BASE_OFFSET + start + 1).records()) == max(0, 99 - start)


@pytest.mark.parametrize(("first", "end"), [(0, 100), (3, 6), (40, 41), (99, 100), (50, 50)])
def test_within_leaves_out_what_is_before_and_behind(first: int, end: int) -> None:
    whole = columns(b"".join(record(n, n, None, b"v" * n, ()) for n in range(100)), 100)
    some = whole.within(BASE_OFFSET + first, BASE_OFFSET + end)
    assert some.records() == whole.records()[first:end]
    assert some.sizes() == whole.sizes()[first:end]
    fewer = some.within(BASE_OFFSET + first + 1, BASE_OFFSET + end)
    assert fewer.records() == whole.records()[first + 1 : end]


def test_offsets_of_a_compacted_batch() -> None:
    deltas = [*range(0, 40, 2), *range(100, 130), *range(9000, 9100)]
    data = b"".join(record(0, delta, None, b"v", ()) for delta in deltas)
    found = columns(data, len(deltas))
    assert list(found.offsets) == [BASE_OFFSET + delta for delta in deltas]


def test_joining_ranges() -> None:
    assert joined([]) == []
    assert joined([range(3)]) == range(3)
    assert joined([range(3), range(3, 5)]) == range(5)
    assert joined([range(3), range(4, 6)]) == [0, 1, 2, 4, 5]
    assert joined([range(3), [3, 4]]) == [0, 1, 2, 3, 4]
    assert joined([[], range(2)]) == [0, 1]
    assert joined([range(0), range(2)]) == [0, 1]
