"""A cell that outgrows its bound: it counts and hashes on, and what it says is right.

The oracle is a dictionary of sequences.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, Summary
from tallymark_audit.model.hashing import MASK, mix
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS
from tallymark_audit.reporters.books.runs import Run, TallyKey
from tallymark_audit.reporters.books.tally_cell import MAX_BLOCKS, Outcome, TallyCell

KEY = TallyKey("t", 0, 0)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.integers(1, 4), st.booleans()),
        st.tuples(st.just("settle"), st.integers(0, 40), st.sampled_from(Outcome)),
    ),
    max_size=60,
)


def test_what_came_again_is_named() -> None:
    cell = TallyCell(0)
    cell.accept(Run(KEY, 0, 9, 5, 6), 10, 0, 4)
    cell.settle(Outcome.ACKNOWLEDGED, 0, 9, 4)
    for sequence in (3, 3):
        cell.repeat(RangeSet.single(sequence, sequence), 4)
    told = cell.report(KEY)
    assert (told.duplicates, told.again) == (2, (RangeSet.single(3, 3), RangeSet.single(3, 3)))
    cell.repeat(RangeSet.single(7, 7), 4)
    told = cell.report(KEY)
    assert (told.duplicates, told.again) == (3, ()), "there is no room: all of them or none"
    assert told.acknowledged == RangeSet.single(0, 9)


def test_names_of_what_came_again_give_way_to_those_of_what_came() -> None:
    """A cell of many fragments that was read again after a rebalance gave up all its ranges for
    those of the copies: what it lacked was no longer a loss, only a number."""
    cell = TallyCell(0)
    for first in range(0, 8, 2):
        cell.accept(Run(KEY, first, first, 5, 6), 10, 0, 10)
        cell.settle(Outcome.ACKNOWLEDGED, first, first, 10)
    cell.repeat(RangeSet([(0, 0), (2, 2)]), 10)
    assert len(cell.report(KEY).again) == 1
    cell.accept(Run(KEY, 8, 8, 5, 6), 10, 0, 10)
    told = cell.report(KEY)
    assert (told.summary, told.accepted.size, told.duplicates) == (None, 5, 2)


def test_a_record_that_is_tried_for_ever_costs_no_more_each_time() -> None:
    cell = TallyCell(0)
    cell.accept(Run(KEY, 0, 9, 5, 6), 10, 0, 1000)
    cell.settle(Outcome.ACKNOWLEDGED, 0, 9, 1000)
    for _ in range(MAX_LEVELS + 1):
        cell.repeat(RangeSet.single(5, 5), 1000)
    told = cell.report(KEY)
    assert (told.duplicates, told.again, cell.weight) == (MAX_LEVELS + 1, (), 2)


@settings(max_examples=150)
@given(steps, st.integers(1, 30), st.booleans())
def test_counts_are_those_of_the_ranges_it_no_longer_has(
    script: list[tuple[Any, ...]], most: int, over: bool
) -> None:
    cell, truth, following = TallyCell(0), dict[int, Outcome | None](), 0
    for step in script:
        if step[0] == "accept":
            first, last = following, following + step[1] - 1
            following = last + (2 if step[2] else 1)
            cell.accept(Run(KEY, first, last, 5, 6), 10, 0, most)
            truth |= dict.fromkeys(range(first, last + 1))
        elif truth.get(step[1], Outcome.FAILED) is None:
            cell.settle(step[2], step[1], step[1], most)
            truth[step[1]] = step[2]
        assert cell.weight <= most
    pending = {sequence for sequence, outcome in truth.items() if outcome is None}
    assert cell.at_rest is not bool(pending)
    if over:
        assert cell.settle_pending(Outcome.IN_DOUBT) is bool(pending)
        truth |= dict.fromkeys(pending, Outcome.IN_DOUBT)
    told = cell.report(KEY)
    assert told.count == len(truth)
    ends = {
        outcome: {sequence for sequence, what in truth.items() if what is outcome}
        for outcome in Outcome
    }
    acknowledged, doubted = ends[Outcome.ACKNOWLEDGED], ends[Outcome.IN_DOUBT]
    if told.summary is None:
        assert told.accepted == RangeSet.of(truth)
        assert told.acknowledged == RangeSet.of(acknowledged)
        assert told.failed == RangeSet.of(ends[Outcome.FAILED])
        assert told.in_doubt == RangeSet.of(doubted)
        assert told.aborted == RangeSet.of(ends[Outcome.ABORTED])
        assert told.filtered == RangeSet.of(ends[Outcome.FILTERED])
    else:
        assert told.accepted == told.acknowledged == told.failed == told.in_doubt == EMPTY
        hashes = sum(map(mix, acknowledged)) & MASK
        others = sum(map(len, ends.values())) - len(acknowledged) - len(doubted)
        numbers = len(truth), len(acknowledged), others, len(doubted), hashes
        assert told.summary == Summary(*numbers)


def test_a_healthy_cell_is_one_range_however_much_it_holds() -> None:
    cell = TallyCell(0)
    for first in range(0, 10**6, 1000):
        cell.accept(Run(KEY, first, first + 999, 1, 2), 1, 0, 100)
        cell.settle(Outcome.ACKNOWLEDGED, first, first + 999, 100)
    assert cell.weight == 2
    assert cell.summary is None
    assert cell.at_rest


@pytest.mark.slow
def test_once_it_counts_its_memory_does_not_grow() -> None:
    """Every second record of a partition is stamped into another window: 100,000 ranges."""
    cell = TallyCell(0)
    for sequence in range(0, 200_000, 2):
        cell.accept(Run(KEY, sequence, sequence, 1, 2), 1, 0, 100)
        cell.settle(Outcome.ACKNOWLEDGED, sequence, sequence, 100)
    assert cell.weight == 0
    assert cell.summary is not None
    assert cell.summary[:4] == (100_000, 100_000, 0, 0)


def test_contents_of_a_block_add_up_in_any_order() -> None:
    one, other = TallyCell(0), TallyCell(0)
    blocks = [Block(3, 10, 2**63), Block(1, 5, 7), Block(3, 4, 2**63 + 1)]
    one.fold(blocks)
    for block in reversed(blocks):
        other.fold([block])
    assert one.report(KEY).blocks == (Block(1, 5, 7), Block(3, 14, 1))
    assert one.report(KEY).blocks == other.report(KEY).blocks


def test_blocks_are_bounded_and_those_that_are_kept_stay_right() -> None:
    cell = TallyCell(0)
    for number in range(MAX_BLOCKS + 10):
        cell.fold([Block(number, 1, number)])
    cell.fold([Block(0, 1, 5), Block(MAX_BLOCKS + 3, 1, 5)])
    told = cell.report(KEY).blocks
    assert len(told) == MAX_BLOCKS
    assert told[0] == Block(0, 2, 5)


def test_the_latency_is_told_as_a_sketch() -> None:
    cell = TallyCell(0)
    sketches.add(cell.latency, 20, 99)
    sketches.add(cell.latency, 3000)
    sketch = sketches.from_list(cell.report(KEY).latency)
    assert abs((sketches.quantile(sketch, 0.5) or 0) - 20) <= 1
    assert abs((sketches.quantile(sketch, 1) or 0) - 3000) <= 61
