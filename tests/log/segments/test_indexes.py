"""The two sparse indexes: look-ups against a linear search, and files that are not right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.log.segments.offset_index import IndexDamagedError, OffsetIndex
from tallymark.log.segments.time_index import TimeIndex

ascending = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=30).map(sorted)


@st.composite
def offset_indexes(draw: st.DrawFn) -> list[tuple[int, int]]:
    offsets, positions = draw(ascending), draw(ascending)
    return list(zip(offsets, positions, strict=False))


def build(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for relative, position in entries:
        index.append(relative, position)
    return index


@settings(max_examples=60, deadline=None)
@given(offset_indexes(), st.integers(0, 2**31 - 1))
def test_offset_index_is_a_linear_search(entries: list[tuple[int, int]], at: int) -> None:
    index = build(entries)
    assert index.lookup(at) == max([p for o, p in entries if o <= at], default=0)
    assert index.position_before(at) == max([p for _, p in entries if p <= at], default=0)
    again = OffsetIndex.decode(index.encode(), 2**31)
    assert [again.entry(n) for n in range(len(again))] == entries
    if entries:
        assert index.encode(1) == index.encode()[8:]


def test_offset_index_bytes_are_kafkas() -> None:
    assert build([(49, 6000)]).encode() == bytes.fromhex("00000031 00001770")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" * 7, "whole number"),
        (bytes.fromhex("00000005 00000010 00000005 00000020"), "ascend"),
        (bytes.fromhex("00000005 00000010 00000006 00000010"), "ascend"),
        (b"\0" * 16, "ascend"),
        (bytes.fromhex("00000005 00001000"), "behind the end"),
        (bytes.fromhex("fffffff0 00000010"), "ascend"),
    ],
)
def test_damaged_offset_index(data: bytes, why: str) -> None:
    with pytest.raises(IndexDamagedError, match=why):
        OffsetIndex.decode(data, 4096)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 100), max_size=30), st.integers(-5, 105))
def test_time_index_finds_where_nothing_earlier_qualifies(stamps: list[int], target: int) -> None:
    """Offsets are 0, 1, 2...; every offset before the answer has a timestamp below the target."""
    index, so_far, brought_by = TimeIndex(), -1, 0
    for offset, stamp in enumerate(stamps):
        if stamp > so_far:
            so_far, brought_by = stamp, offset
        index.append(so_far, brought_by)
    start = index.lookup(target)
    assert all(stamp < target for stamp in stamps[:start])
    again = TimeIndex.decode(index.encode())
    assert again.encode() == index.encode()
    assert again.last() == index.last()
    if stamps:
        assert again.last() == (so_far, brought_by)


def test_time_index_bytes_are_kafkas() -> None:
    index = TimeIndex()
    index.append(1_700_000_000_000, 9)
    assert index.encode() == bytes.fromhex("0000018bcfe56800 00000009")


@pytest.mark.parametrize("data", [b"\0" * 11, b"\0" * 24, bytes.fromhex("0" * 16 + "ffffffff")])
def test_damaged_time_index(data: bytes) -> None:
    with pytest.raises(IndexDamagedError):
        TimeIndex.decode(data)
