"""RangeSet is a set of integers: whatever it does, Python's set does too."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_audit.model.ranges import EMPTY, GrowingRanges, RangeSet

numbers = st.sets(st.integers(-5, 60), max_size=40)


def members(ranges: RangeSet) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


def is_normal(ranges: RangeSet) -> bool:
    pairs = ranges.ranges
    inside = all(first <= last for first, last in pairs)
    return inside and all(b[0] > a[1] + 1 for a, b in pairwise(pairs))


@settings(max_examples=200)
@given(numbers, numbers)
def test_is_a_set(one: set[int], other: set[int]) -> None:
    a, b = RangeSet.of(one), RangeSet.of(other)
    for ours, theirs in ((a | b, one | other), (a & b, one & other), (a - b, one - other)):
        assert members(ours) == theirs
        assert is_normal(ours)
        assert ours.size == len(theirs)
        assert bool(ours) == bool(theirs)
    assert (a == b) == (one == other)
    assert a != one
    assert all((n in a) == (n in one) for n in range(-7, 63))
    assert RangeSet.from_list(a.to_list()) == a
    assert hash(RangeSet.of(sorted(one, reverse=True))) == hash(a)


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=30))
def test_adding_ranges_in_any_order(pairs: list[tuple[int, int]]) -> None:
    ranges, growing, expected = EMPTY, GrowingRanges(), set[int]()
    for first, length in pairs:
        ranges = ranges.add(first, first + length)
        before = len(growing)
        assert growing.add(first, first + length) is (len(growing) > before)
        expected |= set(range(first, first + length + 1))
        assert is_normal(ranges)
        assert growing.frozen() == ranges
        assert len(growing) == len(ranges.ranges)
    assert members(ranges) == expected
    assert GrowingRanges(ranges).frozen() == ranges
    if expected:
        assert (ranges.first, ranges.last) == (min(expected), max(expected))


def test_costs_what_is_wrong_not_what_is_in_it() -> None:
    whole = RangeSet.single(0, 10**15)
    assert (whole - RangeSet.of([7])).ranges == ((0, 6), (8, 10**15))
    assert (whole - RangeSet.of([7])).size == 10**15


def test_reads_like_a_person_would_write_it() -> None:
    assert str(RangeSet([(0, 99), (120, 120), (130, 131)])) == "0-99, 120, 130-131"
    assert str(EMPTY) == ""


def test_refuses_what_is_no_range() -> None:
    with pytest.raises(ValueError, match="before it starts"):
        RangeSet.single(5, 4)
    with pytest.raises(ValueError, match="before it starts"):
        EMPTY.add(5, 4)
    with pytest.raises(ValueError, match="even length"):
        RangeSet.from_list([1, 2, 3])


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    for ranges in (EMPTY, GrowingRanges()):
        with pytest.raises(ValueError, match="cannot end before it starts"):
            ranges.add(5, 4)
