"""How often sequences were seen, as levels of ranges, against a counter."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import (
    GrowingLevels,
    Levels,
    beyond,
    copies_in,
    levels_from_json,
    levels_of,
    levels_to_json,
    sequences_of,
    together,
)

sequences = st.lists(st.integers(0, 12), max_size=25)


def counted(levels: Levels) -> Counter[int]:
    return Counter(n for level in levels for first, last in level for n in range(first, last + 1))


@given(sequences, sequences)
def test_both_together_are_the_sum(one: list[int], other: list[int]) -> None:
    both = together(levels_of(one), levels_of(other))
    assert both == levels_of([*one, *other])
    assert counted(both) == Counter(one) + Counter(other)
    assert copies_in(both) == len(one) + len(other)
    assert all(not (inner - outer) for outer, inner in pairwise(both))


@given(sequences, st.sets(st.integers(0, 12)))
def test_once_more(before: list[int], more: set[int]) -> None:
    growing = GrowingLevels(levels_of(before))
    growing.add(RangeSet.of(more))
    assert growing.frozen() == levels_of([*before, *more])
    assert growing.depth == len(growing.frozen())
    assert len(growing) == sum(len(level.ranges) for level in growing.frozen())
    assert sequences_of(growing.frozen()) == RangeSet.of([*before, *more])


@given(sequences, sequences)
def test_what_is_beyond_is_so_sequence_by_sequence(there: list[int], given: list[int]) -> None:
    assert counted(beyond(levels_of(there), levels_of(given))) == Counter(there) - Counter(given)


@given(sequences)
def test_json_keeps_them(some: list[int]) -> None:
    assert levels_from_json(levels_to_json(levels_of(some))) == levels_of(some)
