from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.client.producing.stamps import (
    MALFORMED,
    MAX_PARTITION,
    MAX_SEQUENCE,
    MAX_SERVER_BYTES,
    STAMP_HEADER,
    Stamp,
    decode_stamp,
    encode_stamp,
    stamp_of,
    uvarint,
)

servers = st.text(max_size=60).filter(lambda name: _encodes(name))
stamps = st.builds(
    Stamp,
    instance=st.binary(min_size=8, max_size=8),
    partition=st.integers(0, MAX_PARTITION),
    sequence=st.integers(0, MAX_SEQUENCE),
    server=servers,
)


def _encodes(name: str) -> bool:
    try:
        return len(name.encode()) <= MAX_SERVER_BYTES
    except UnicodeEncodeError:
        return False


@given(stamps)
def test_a_stamp_comes_back_as_it_was(stamp: Stamp) -> None:
    data = encode_stamp(stamp)
    assert decode_stamp(data) == stamp
    assert decode_stamp(memoryview(data)) == stamp


@given(stamps)
def test_the_layout_is_the_documented_one(stamp: Stamp) -> None:
    data = encode_stamp(stamp)
    assert data[0] == 1
    assert data[1:9] == stamp.instance
    rest = uvarint(stamp.partition) + uvarint(stamp.sequence) + stamp.server.encode()
    assert data[9:] == rest


def test_a_known_stamp_has_known_bytes() -> None:
    stamp = Stamp(bytes(range(8)), 3, 300, "web-1")
    assert encode_stamp(stamp) == bytes.fromhex("01 0001020304050607 03 ac02") + b"web-1"
    assert len(encode_stamp(Stamp(bytes(8), 7, 1_000_000, ""))) == 13


@given(st.binary(max_size=40))
def test_any_bytes_are_a_stamp_with_one_form_or_none(data: bytes) -> None:
    stamp = decode_stamp(data)
    if stamp is not None:
        assert encode_stamp(stamp) == data


@given(stamps, st.integers(0, 10))
def test_a_stamp_that_is_cut_short_is_none(stamp: Stamp, keep: int) -> None:
    assert decode_stamp(encode_stamp(stamp)[:keep]) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x02" + bytes(8) + b"\x00\x00", "unknown version"),
        (b"\x01" + bytes(8) + b"\x80\x00\x00", "two bytes for a number that fits in one"),
        (b"\x01" + bytes(8) + b"\x00" + b"\xff" * 9 + b"\x01", "a sequence over 63 bits"),
        (b"\x01" + bytes(8) + b"\xff\xff\xff\xff\x0f\x00", "a partition over 31 bits"),
        (b"\x01" + bytes(8) + b"\x00\x00\xff", "a server that is not UTF-8"),
        (b"\x01" + bytes(8) + b"\x00\x00" + b"x" * 256, "a server that is too long"),
    ],
)
def test_what_is_no_stamp(data: bytes, why: str) -> None:
    assert decode_stamp(data) is None, why


@pytest.mark.parametrize(
    "stamp",
    [
        Stamp(bytes(7), 0, 0, ""),
        Stamp(bytes(8), -1, 0, ""),
        Stamp(bytes(8), MAX_PARTITION + 1, 0, ""),
        Stamp(bytes(8), 0, -1, ""),
        Stamp(bytes(8), 0, MAX_SEQUENCE + 1, ""),
        Stamp(bytes(8), 0, 0, "é" * 128),
    ],
)
def test_what_the_layout_cannot_hold_is_refused(stamp: Stamp) -> None:
    with pytest.raises(ValueError, match=r"not|at most|has"):
        encode_stamp(stamp)


def test_the_stamp_is_found_among_headers() -> None:
    stamp = Stamp(b"instance", 1, 2, "s")
    assert stamp_of(()) is None
    assert stamp_of((("other", b"x"), ("null", None))) is None
    assert stamp_of((("other", b"x"), (STAMP_HEADER, encode_stamp(stamp)))) == stamp
    assert stamp_of(((STAMP_HEADER, b"junk"),)) == MALFORMED
    assert stamp_of(((STAMP_HEADER, None),)) == MALFORMED
    both = ((STAMP_HEADER, b"junk"), (STAMP_HEADER, encode_stamp(stamp)))
    assert stamp_of(both) == stamp
