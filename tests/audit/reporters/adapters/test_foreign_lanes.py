"""One partition on its way through somebody else's producer."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.reporters.adapters.partition_tracker import (
    PageMaker,
    PartitionTracker,
    cut,
    runs,
)
from tallymark_audit.reporters.adapters.record_path import (
    PAGE,
    StampOrigin,
    StampPages,
    sequence_of,
)
from tallymark_audit.reporters.books.tally_cell import Outcome

WHO = StampOrigin(b"instance", "wéb-17")


def no_reports(tracker: PartitionTracker) -> PageMaker:
    return lambda at, asked: lambda *_: None


ACKED, FAILED, DOUBT = Outcome.ACKNOWLEDGED, Outcome.FAILED, Outcome.IN_DOUBT


@given(st.integers(0, 2**40), st.integers(0, 2**31 - 1))
def test_stamps_are_those_of_the_codec(first: int, partition: int) -> None:
    expected = [
        encode_stamp(Stamp(WHO.instance, partition, first + n, WHO.server)) for n in range(300)
    ]
    pages, (page, place) = StampPages(WHO, partition), divmod(first, PAGE)
    found = [*pages.headers(page, place)]
    for number in range(1, 4):
        found += pages.headers(page + number, 0)
    assert [value for name, value in found[:300] if name == "tm"] == expected
    assert [sequence_of(header) for header in found[:300]] == list(range(first, first + 300))


def test_stamps_from_the_first_on() -> None:
    expected = [encode_stamp(Stamp(WHO.instance, 3, n, WHO.server)) for n in range(20_000)]
    tracker = PartitionTracker("t", 3, WHO, no_reports)
    assert [value for _, value in islice(tracker.headers, 20_000)] == expected


@given(st.sets(st.integers(0, 500), min_size=1).flatmap(lambda s: st.permutations(sorted(s))))
def test_runs_of_reports_in_any_order(numbers: list[int]) -> None:
    assert runs(numbers) == RangeSet.of(numbers)


@given(st.integers(0, 100), st.lists(st.sampled_from([ACKED, FAILED, None]), min_size=1))
def test_a_batch_is_cut_where_ends_change(first: int, ends: list[Outcome | None]) -> None:
    times = list(range(len(ends)))
    batch = BatchTally("t", 0, b"instance", "web", first, times, 10 * len(ends), False)
    fates = [
        (RangeSet.of(first + at for at, end in enumerate(ends) if end is outcome), outcome)
        for outcome in (ACKED, FAILED)
    ]
    parts = cut(batch, fates)
    told = [part.outcome for part in parts for _ in part.batch.timestamps]
    assert told == ends
    assert [at for part in parts for at in part.batch.timestamps] == times
    assert [part.batch.first_sequence for part in parts] == [
        first + part.batch.timestamps[0] for part in parts
    ]


def hand_over(tracker: PartitionTracker, when: int) -> None:
    next(tracker.reports)
    next(tracker.headers)
    tracker.times.append(when)


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.slow
def test_what_is_drained_is_what_happened(data: st.DataObject) -> None:
    tracker = PartitionTracker("t", 0, WHO, no_reports)
    begun: list[int] = []
    ends: dict[int, Outcome] = {}
    told: dict[int, Outcome] = {}
    for _ in range(data.draw(st.integers(1, 30))):
        for _ in range(data.draw(st.integers(0, 5))):
            hand_over(tracker, data.draw(st.integers(0, 10**6)))
        waiting = [n for n in range(tracker.next) if n not in ends]
        for number in data.draw(st.lists(st.sampled_from(waiting), unique=True)) if waiting else ():
            ends[number] = data.draw(st.sampled_from([ACKED, FAILED, DOUBT]))
            if ends[number] is ACKED:
                tracker.done.append(number)
            else:
                tracker.failed.append((number, ends[number]))
        if data.draw(st.booleans()):
            drained = tracker.drain()
            if drained.begun is not None:
                begun += range(drained.begun.first_sequence, drained.begun.last_sequence + 1)
            for _, parts in drained.split:
                for part, outcome in parts:
                    if outcome is not None:
                        told |= dict.fromkeys(
                            range(part.first_sequence, part.last_sequence + 1), outcome
                        )
            assert begun == list(range(tracker.next))
            assert told == ends
            assert tracker.pending == (len(ends) < tracker.next)
