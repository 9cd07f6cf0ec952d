"""What a load reports of its commits: events that may be made and sent any number of times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark_audit.events.claim_book import AHEAD, ClaimBook, fold
from tallymark_audit.events.event_checks import absurdity, read_event
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.judge.loaded import Loaded, current_tables
from tallymark_audit.judge.states import ReporterFacts
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.hashing import fingerprint
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.reporters.books.tally import MOST_RANGES
from tallymark_audit.reporters.lake import LakeCommit, LakeGap, LakeTally, LoadedThrough
from tallymark_audit.reporters.lake.commit_events import (
    EVENTS_PER_VERSION,
    EventSize,
    TableIdentity,
    events_of,
)

W = 1000
WHO = TableIdentity("aggregate/clicks", "7a2f", 5, "driver-1", W)
KEY = CellKey("clicks", 2, 4000, "web-1", "ab" * 8)
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def commit(version: int, *tallies: LakeTally, through: int = 0) -> LakeCommit:
    loaded = (LoadedThrough("clicks", 2, through, ID),) if through else ()
    return LakeCommit(version, 9000 + version, tallies, loaded)


def tally(first: int, last: int, key: CellKey = KEY) -> LakeTally:
    return LakeTally(key, last - first + 1, ((first, last),), 10, (), (), 0, (), 4000, 4010)


def cells_of(book: ClaimBook) -> Loaded:
    return Loaded.of(book.loaded({WHO.reporter}))


def test_an_event_says_what_the_commit_brought() -> None:
    aside = replace(tally(0, 9), quarantined=((10, 11), (14, 14)), quarantined_count=3)
    gap = LakeGap("clicks", 2, 100, 120, "retention")
    other = tally(0, 9, KEY._replace(window=5000))
    whole = replace(commit(6, aside, other, through=130), gaps=(gap,))
    first, last = events_of(WHO, whole, after=4, size=EventSize(1, 10))
    assert first.event_number == 7 * EVENTS_PER_VERSION - 2
    assert (first.group, last.group) == (1, 2)
    assert {event.covers_from for event in (first, last)} == {5 * EVENTS_PER_VERSION}
    (cell,) = first.cells
    assert (cell.part, cell.count, str(cell.acknowledged), str(cell.failed)) == (
        6,
        10,
        "0-9",
        "10-11, 14",
    )
    assert last.gaps[0].last_offset == 119
    (loaded,) = last.copied
    assert (loaded.through_offset, loaded.topic_id) == (130, ID.replace("-", ""))
    for event in (first, last):
        assert event.closed
        assert not absurdity(event)
        assert read_event(encode_event(event), W) == event


def test_the_reporter_is_the_table() -> None:
    assert WHO.reporter == f"lake-aggregate/clicks@{WHO.instance}"
    anew = replace(WHO, table_id="7a30", created_at=6)
    assert anew.reporter != WHO.reporter
    long = replace(WHO, table="a/" + "x" * 249)
    other = replace(WHO, table="a/" + "x" * 248 + "y")
    assert len(long.reporter) <= 255
    assert long.reporter != other.reporter
    facts = [ReporterFacts(w.reporter, w.instance, first_seen=w.created_at) for w in (WHO, anew)]
    assert current_tables(facts) == [facts[1]]


def test_a_version_cannot_follow_a_later_one() -> None:
    with pytest.raises(ValueError, match="version 4 of aggregate/clicks cannot follow 4"):
        events_of(WHO, commit(4, tally(0, 1)), after=4)


def test_tasks_that_read_the_same_record_show_it_twice() -> None:
    (event,) = events_of(WHO, commit(1, tally(0, 9), tally(8, 12), tally(20, 20)), -1)
    (cell,) = event.cells
    assert (cell.count, str(cell.acknowledged), cell.duplicates) == (16, "0-12, 20", 2)
    assert [str(level) for level in cell.again] == ["8-9"]
    book = fold([event])
    seen = cells_of(book).cells[4000][KEY]
    assert (seen.count, seen.duplicate_count, str(seen.repeated)) == (16, 2, str(cell.again))


def test_copies_within_a_task_are_named() -> None:
    one = replace(tally(0, 3), count=6, copies=(Copy(2, 70, 1), Copy(2, 71, 1)))
    (event,) = events_of(WHO, commit(1, one), -1)
    assert [str(level) for level in event.cells[0].again] == ["1", "1"]


def test_more_ranges_than_are_kept_become_numbers() -> None:
    ranges = tuple((n, n) for n in range(0, 2 * MOST_RANGES + 2, 2))
    (event,) = events_of(WHO, commit(1, LakeTally(KEY, len(ranges), ranges)), -1)
    summary = event.cells[0].summary
    assert summary is not None
    assert (summary.acknowledged, summary.fingerprint) == (
        MOST_RANGES + 1,
        fingerprint(RangeSet(ranges)),
    )
    seen = cells_of(fold([event])).cells[4000][KEY]
    assert (seen.count, seen.fingerprint) == (MOST_RANGES + 1, summary.fingerprint)


def test_rows_without_a_stamp_are_numbers() -> None:
    bare = CellKey("clicks", 2, 4000, "", "")
    (event,) = events_of(WHO, commit(1, LakeTally(bare, 7, quarantined_count=2)), -1)
    loaded = cells_of(fold([read_event(encode_event(event), W)]))
    assert loaded.cells[4000][bare].count == 7
    assert loaded.unnamed[4000] == {bare: 2}


def test_a_large_commit_is_split_and_believed_as_a_whole() -> None:
    keys = [KEY._replace(window=W * at) for at in range(300)]
    events = events_of(
        WHO, commit(3, *(tally(0, 9, key) for key in keys), through=50), -1, EventSize(cells=2)
    )
    assert len(events) == 150 > AHEAD
    for left_out in (0, 70, 149):
        book = fold(event for at, event in enumerate(events) if at != left_out)
        assert not book.copied
        book.add(events[left_out])
        for event in events:  # sent again as a whole
            book.add(event)
        assert [offset for _, offset in book.copied.values()] == [50]


def chain(versions: Sequence[int]) -> list[AuditEvent]:
    """The reports of these versions, each naming the one before."""
    found: list[AuditEvent] = []
    before = -1
    for at, version in enumerate(versions):
        one = commit(version, tally(10 * at, 10 * at + 9), through=10 * at + 10)
        found += events_of(WHO, one, before)
        before = version
    return found


def test_a_lost_report_holds_what_comes_after_it() -> None:
    first, second, third = chain([3, 5, 9])
    book = fold([first, third])
    assert [offset for _, offset in book.copied.values()] == [10]
    book.add(second)
    book.add(third)
    assert [offset for _, offset in book.copied.values()] == [30]


def test_a_report_that_comes_again_takes_nothing_back() -> None:
    """A slow driver published version 3 once more, after the next load had published version 5: the
    table seemed to have gone back, and its windows waited for ever."""
    first, second = chain([3, 5])
    book = fold([first, second, first])
    assert [offset for _, offset in book.copied.values()] == [20]


def test_a_topic_made_anew_starts_from_its_own_beginning() -> None:
    book = fold(chain([3]))
    other = LoadedThrough("clicks", 2, 4, ID.replace("0f", "1f"))
    (event,) = events_of(WHO, LakeCommit(4, 9999, (), (other,)), 3)
    book.add(event)
    assert [offset for _, offset in book.copied.values()] == [4]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), many=st.integers(1, 12), size=st.integers(1, 3))
@pytest.mark.slow
def test_any_order_and_any_repetition_end_the_same(seed: int, many: int, size: int) -> None:
    """Drivers that die, retry, and publish at once make some order with repetitions; once each
    event has come and the last ones came again in order, all books are the same."""
    chance = Random(seed)
    versions = sorted(chance.sample(range(50), many))
    keys = [KEY._replace(window=W * n) for n in range(4)]
    commits = [
        commit(
            version,
            *(tally(10 * at, 10 * at + 9, key) for key in keys if chance.random() < 0.7),
            through=10 * at + 10,
        )
        for at, version in enumerate(versions)
    ]
    events: list[AuditEvent] = []
    before = -1
    for one in commits:
        events += events_of(WHO, one, before, EventSize(cells=size))
        before = one.version
    plain = fold(events)
    jumbled = [*events, *chance.choices(events, k=len(events))]
    chance.shuffle(jumbled)
    book = fold([*jumbled, *events])
    assert book.copied == plain.copied
    assert cells_of(book) == cells_of(plain)
    assert book.reporters[WHO.reporter].covered == plain.reporters[WHO.reporter].covered
    for cells in cells_of(book).cells.values():
        assert not any(seen.duplicate_count for seen in cells.values())
