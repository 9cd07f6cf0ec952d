"""Tallies: the parts of several tasks give what one task would have counted."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.model.cells import Block, CellKey, Copy
from tallymark_spark_jobs.counting.codec import from_arrow, from_json, schema, to_arrow, to_json
from tallymark_spark_jobs.counting.digests import digest_of_ranges, folded_ranges, seed_of
from tallymark_spark_jobs.counting.intervals import MOST_LEVELS, levels, size, union
from tallymark_spark_jobs.counting.tally import COPIES_NAMED, CellTally, merged

KEY = CellKey("orders", 3, 60_000, "web-1", "ab" * 8)
LAST = (1 << 63) - 1
Ranges = tuple[tuple[int, int], ...]


def tally(ranges: Ranges, again: tuple[Ranges, ...] = (), partition: int = 0) -> CellTally:
    seen = [pair for level in (ranges, *again) for pair in level]
    xors, sums = folded_ranges([seed_of(KEY)], [0] * len(seen), seen)
    messages = size(seen)
    return CellTally(
        key=KEY,
        aborted=False,
        messages=messages,
        extra=messages - size(ranges),
        bytes=10 * messages,
        malformed=0,
        ranges=ranges,
        copies=tuple(Copy(partition, at, at) for at, _ in again[0]) if again else (),
        digest_xor=xors[0],
        digest_sum=sums[0],
        first_partition=partition,
        last_partition=partition,
        first_offset=ranges[0][0] if ranges else 0,
        last_offset=ranges[-1][1] if ranges else 0,
        min_timestamp=60_000 + partition,
        max_timestamp=60_500 + partition,
        again=again,
    )


def of(numbers: Iterable[int]) -> CellTally:
    found = levels([(number, number) for number in numbers])
    return tally(found[0], found[1:])


numbers = st.lists(st.integers(0, 40), min_size=1, max_size=40)
bounds = st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda two: (two[0], sum(two)))


@given(st.lists(bounds, max_size=12))
def test_levels_say_how_often_each_number_is_there(ranges: list[tuple[int, int]]) -> None:
    times = Counter(at for first, last in ranges for at in range(first, last + 1))
    found = levels(ranges)
    deepest = max(times.values(), default=0)
    assert len(found) == deepest
    for depth, level in enumerate(found, 1):
        assert {at for a, b in level for at in range(a, b + 1)} == {
            at for at, many in times.items() if many >= depth
        }
        assert all(one[1] + 1 < two[0] for one, two in pairwise(level))
    assert union(ranges) == (found[0] if found else ())


def test_levels_beyond_the_bound_are_one() -> None:
    found = levels([(5, 5)] * (MOST_LEVELS + 50))
    assert found == (((5, 5),),) * (MOST_LEVELS + 1)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_merged_parts_are_what_was_counted_at_once(parts: list[list[int]]) -> None:
    whole = of(number for part in parts for number in part)
    (found,) = merged([of(part) for part in parts])
    assert replace(found, copies=()) == replace(whole, copies=())
    assert len(found.copies) <= whole.extra


@given(numbers, numbers)
def test_other_messages_have_another_digest(one: list[int], other: list[int]) -> None:
    """A lost message beside a repeated one has the same count."""
    mine, theirs = of(one), of(other)
    same = (mine.messages, mine.digest_xor, mine.digest_sum) == (
        theirs.messages,
        theirs.digest_xor,
        theirs.digest_sum,
    )
    assert same == (Counter(one) == Counter(other))


@given(st.lists(st.integers(0, 500), unique=True, max_size=200))
def test_a_digest_is_made_again_from_ranges(sequences: list[int]) -> None:
    ranges = union([(at, at) for at in sequences])
    seed = seed_of(KEY)
    xor = total = 0
    for at in sequences:
        # splitmix64, as its authors wrote it: the state after so many steps, then mixed.
        z = seed + (at + 1) * 0x9E3779B97F4A7C15 & 2**64 - 1
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
        z ^= z >> 31
        xor, total = xor ^ z, total + z & 2**64 - 1
    assert digest_of_ranges(KEY, ranges) == (len(sequences), xor, total)
    pairs = [(at, at) for at in sequences]
    assert folded_ranges([seed], [0] * len(pairs), pairs) == ([xor], [total])


def test_the_digests_of_many_cells_are_kept_apart() -> None:
    keys = [KEY._replace(window=60_000 * n) for n in range(50)]
    ranges = [[(n, n + 3 * n), (10**12, 10**12 + n)] for n in range(50)]
    flat = [(n, pair) for n, some in enumerate(ranges) for pair in some]
    xors, sums = folded_ranges(
        [seed_of(key) for key in keys], [n for n, _ in flat], [pair for _, pair in flat]
    )
    for key, some, xor, total in zip(keys, ranges, xors, sums, strict=True):
        assert digest_of_ranges(key, some)[1:] == (xor, total)
    assert len(set(xors)) == len(set(sums)) == 50


def test_a_long_range_is_hashed_in_portions() -> None:
    whole = digest_of_ranges(KEY, [(0, 700_000)])
    one, two = digest_of_ranges(KEY, [(0, 333_333)]), digest_of_ranges(KEY, [(333_334, 700_000)])
    assert whole == (700_001, one[1] ^ two[1], one[2] + two[2] & 2**64 - 1)
    assert digest_of_ranges(KEY, [(LAST - 1, LAST)])[0] == 2


@pytest.mark.parametrize("ranges", [[(0, 1 << 40)], [(5, 4)], [(-3, 4)]])
def test_absurd_ranges_are_refused_at_once(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="sequences"):
        digest_of_ranges(KEY, ranges)


def test_a_mirror_that_renames_a_topic_changes_no_digest() -> None:
    renamed = KEY._replace(topic="dc1.orders")
    assert digest_of_ranges(renamed, [(0, 99)]) == digest_of_ranges(KEY, [(0, 99)])
    for other in ({"partition": 4}, {"window": 0}, {"server": "web-2"}, {"instance": "cd" * 8}):
        assert digest_of_ranges(KEY._replace(**other), [(0, 99)]) != digest_of_ranges(
            KEY, [(0, 99)]
        )


def test_parts_of_other_cells_and_of_aborted_records_stay_apart() -> None:
    other = replace(tally(((0, 4),)), key=KEY._replace(window=0))
    gone = replace(tally(((5, 9),)), aborted=True)
    mine = [tally(((0, 4),)), gone, other, tally(((7, 9),), partition=2)]
    found = merged(mine)
    assert [(one.key.window, one.aborted, one.ranges) for one in found] == [
        (60_000, False, ((0, 4), (7, 9))),
        (60_000, True, ((5, 9),)),
        (0, False, ((0, 4),)),
    ]
    assert (found[0].first_partition, found[0].last_partition) == (0, 2)


def test_blocks_add_up() -> None:
    parts = [
        replace(tally(((0, 4),)), blocks=(Block(0, 5, 2**64 - 1), Block(7, 1, 3))),
        replace(tally(((5, 9),)), blocks=(Block(0, 5, 2),)),
    ]
    assert merged(parts)[0].blocks == (Block(0, 10, 1), Block(7, 1, 3))


@pytest.mark.slow
def test_a_cell_of_many_ranges_is_merged_in_linear_time() -> None:
    """Merging run by run took 22 s for 8,000 runs of one cell, and four times that for twice as
    many. Here there are 100,000, of one task and of as many tasks as there are."""
    ranges = tuple((3 * n, 3 * n + 1) for n in range(100_000))
    whole = tally(ranges)
    begun = time.process_time()
    assert merged([whole, whole])[0].extra == 200_000
    parts = [replace(whole, ranges=(pair,), messages=2, extra=0) for pair in reversed(ranges)]
    assert merged(parts)[0].ranges == ranges
    assert time.process_time() - begun < 5


def test_so_many_copies_are_named_and_no_more() -> None:
    copies = tuple(Copy(0, at, at) for at in range(700))
    parts = [replace(tally(((0, 699),)), copies=copies) for _ in range(2)]
    found = merged(parts)[0].copies
    assert len(found) == COPIES_NAMED
    assert list(found) == sorted(found, key=lambda copy: copy.sequence)


sequence = st.integers(0, LAST)
whole_tallies = st.builds(
    CellTally,
    key=st.builds(CellKey, st.text(), st.integers(0, 2**31 - 1), st.integers(-60_000, LAST),
                  st.text(), st.sampled_from(("", "0" * 16))),
    aborted=st.booleans(),
    messages=sequence,
    extra=sequence,
    bytes=sequence,
    malformed=sequence,
    ranges=st.lists(st.tuples(sequence, sequence).map(lambda two: (min(two), max(two)))).map(union),
    copies=st.lists(st.builds(Copy, st.integers(0, 9), sequence, sequence), max_size=3).map(tuple),
    digest_xor=st.integers(0, 2**64 - 1),
    digest_sum=st.integers(0, 2**64 - 1),
    first_partition=st.integers(0, 9),
    last_partition=st.integers(0, 9),
    first_offset=sequence,
    last_offset=sequence,
    min_timestamp=st.integers(-(2**63), LAST),
    max_timestamp=st.integers(-(2**63), LAST),
    blocks=st.lists(
        st.builds(Block, sequence, sequence, st.integers(0, 2**64 - 1)), max_size=3
    ).map(tuple),
    again=st.just((((5, 9),), ((6, 6),))) | st.just(()),
)  # fmt: skip


@given(st.lists(whole_tallies, max_size=3))
def test_json_and_arrow_bring_back_what_was_given(tallies: list[CellTally]) -> None:
    stamped = [one if one.ranges else replace(one, digest_xor=0, digest_sum=0) for one in tallies]
    assert [from_json(json.loads(json.dumps(to_json(one)))) for one in stamped] == stamped
    rows = to_arrow(tallies)
    rows.validate(full=True)
    assert rows.schema == schema()
    assert list(from_arrow(rows)) == tallies


@pytest.mark.slow
def test_many_rows_are_read_in_portions() -> None:
    tallies = [replace(tally(((n, n + 1),)), first_offset=n) for n in range(10_000)]
    rows = to_arrow(tallies)
    assert list(from_arrow(rows)) == tallies
    two = pa.Table.from_batches([rows.slice(0, 7), rows.slice(7)])
    assert list(from_arrow(two)) == tallies


@pytest.mark.parametrize(
    "change",
    [
        {"cell": ["t", 0, 0, "s"]},
        {"cell": ["t", "0", 0, "s", "i"]},
        {"messages": 2**63},
        {"messages": 1.5},
        {"ranges": [3]},
        {"ranges": [3, 2]},
        {"ranges": [0, 4, 5, 9]},
        {"digest": ["x", "0"]},
        {"blocks": [1, 2]},
        {"copies": [1, 2, None]},
        {"offsets": [1]},
        {"again": 7},
    ],
)
def test_what_is_no_tally_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"tally|cell|rows|64 bits|invalid|unpack"):
        from_json(to_json(tally(((0, 4),))) | change)


def test_other_columns_are_no_tallies() -> None:
    rows = to_arrow([tally(((0, 4),))])
    with pytest.raises(ValueError, match="columns of tallies"):
        list(from_arrow(rows.select(["topic"])))


def test_no_pandas_is_imported_for_the_rows_of_tallies() -> None:
    """It would cost each Python worker one to two seconds."""
    code = (
        "import sys; from tallymark_spark_jobs.counting.codec import from_arrow, to_arrow; "
        "from tallymark_spark_jobs.counting.tally import CellTally; "
        "from tallymark_audit.model.cells import CellKey; "
        "cell = CellKey('t', 0, 0, 's', 'i'); "
        "one = CellTally(cell, False, 1, 0, 1, 0, ((0, 0),), (), 1, 1, 0, 0, 0, 0, 0, 0); "
        "sys.exit(list(from_arrow(to_arrow([one]))) != [one] or 'pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
