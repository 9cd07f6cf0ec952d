"""The journal of a consumer: whatever moment it dies at, what it tells is what was in the books, in
hand and on the desk."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.client.consuming.marks import NONE, Marks
from tallymark.client.consuming.marks import ONE as ONE_MARK
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.events import CellReport
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import reading, replay
from tallymark_audit.reporters.journal.consumer_writer import ConsumerJournal
from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.reporters.journal.marks_file import MARKS_SUFFIX, MarksFile, read_marks
from tallymark_audit.reporters.journal.orphans import find_orphans
from tallymark_audit.reporters.processing.messages import ConsumedMessage
from tallymark_audit.reporters.processing.processing import ONE, InFlightMark, Processing
from tallymark_audit.testing import FailingDisk

CLUSTER = "cluster-1"
IDENTITY = ReporterIdentity("consumer-aa", "web", "app", "aa" * 8, 1000, 5, kind="consumer")
WHO = b"instance"
PLACES: tuple[TopicPartition, ...] = ("t", 0), ("t", 1), ("other", 0)


def new_journal(folder: Path, disk: Disk | None = None) -> ConsumerJournal:
    journal = ConsumerJournal(folder, IDENTITY, "g", 1000, 10**15, disk)
    journal.know(CLUSTER)
    return journal


def run(place: TopicPartition, first: int, count: int, offset: int | None = None) -> SeenRun:
    key = CellKey(place[0], place[1], 0, "web", WHO.hex())
    at = first if offset is None else offset
    return SeenRun(key, first, at, count=count, bytes=count, min_timestamp=1, max_timestamp=2)


def message(place: TopicPartition, sequence: int) -> ConsumedMessage:
    stamp = encode_stamp(Stamp(WHO, place[1], sequence, "web"))
    return ConsumedMessage(place, sequence, 1 + sequence, stamp, 7)


def read(journal: ConsumerJournal) -> replay.Journaled:
    return reading.read(journal.path.read_bytes())


def everything(processing: Processing) -> tuple[object, ...]:
    tally = processing.books.tally
    cells = {key: cell.report(key) for key, cell in tally.cells.items()}
    held = processing.in_flight.runs(), processing.ack_batcher.state(), processing.books.progress
    return cells, tally.next_event, tally.next_part, tally.dropped_through, held


# -- what the books tell --------------------------------------------------------------------

Call = Callable[[ConsumerJournal], object]
places = st.sampled_from(PLACES)
numbers = st.integers(0, 60)


def _report(journal: ConsumerJournal, arrives: bool) -> None:
    tally = journal.processing.books.tally
    for event in journal.processing.books.report(80, 80):
        journal.reported()
        (tally.published if arrives else tally.not_published)(event.event_number)


calls: st.SearchStrategy[Call] = st.one_of(
    st.builds(
        lambda place, first, count: lambda j: j.handed_out(place, [run(place, first, count)]),
        places,
        numbers,
        st.integers(1, 9),
    ),
    st.builds(lambda place, to: lambda j: j.done_before({place: to}, 50), places, numbers),
    st.builds(
        lambda place, at, how: lambda j: j.processed(message(place, at), how, 51),
        places,
        numbers,
        st.sampled_from([Outcome.ACKNOWLEDGED, Outcome.FILTERED]),
    ),
    st.builds(lambda place, at: lambda j: j.fetched(message(place, at)), places, numbers),
    st.just(lambda j: j.settle(52)),
    st.builds(lambda place: lambda j: j.released(place, 53), places),
    st.builds(lambda place, at: lambda j: j.truncated(place, at, 54), places, numbers),
    st.builds(lambda place: lambda j: j.view(place), places),
    st.builds(lambda arrives: lambda j: _report(j, arrives), st.booleans()),
    st.just(lambda j: j.drop(j.processing.books.forgotten(10**9))),
    st.just(lambda j: j._rewrite()),
)


@given(st.lists(calls, max_size=30))
def test_tells_everything_after_every_call(some: list[Call]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = new_journal(Path(folder))
        for call in some:
            call(journal)
            found = read(journal)
            assert found.processing is not None
            assert everything(found.processing) == everything(journal.processing)
            assert found.slots == journal._slots
        journal.close(remove=True)
        assert list(Path(folder).iterdir()) == []


def test_what_was_done_before_the_cluster_is_known_is_in_it(tmp_path: Path) -> None:
    journal = ConsumerJournal(tmp_path, IDENTITY, "g", 1000, 10**15)
    journal.handed_out(PLACES[0], [run(PLACES[0], 0, 9)])
    view = journal.view(PLACES[0])
    journal.processed(message(PLACES[1], 4), Outcome.ACKNOWLEDGED, 5)
    assert not journal.path.exists()
    journal.know(CLUSTER)
    found = read(journal)
    assert found.processing is not None
    assert everything(found.processing) == everything(journal.processing)
    assert view is not None
    assert (found.cluster, found.slots) == (CLUSTER, {PLACES[0]: 0})
    journal.close(remove=False)


def test_a_disk_that_takes_nothing_costs_the_journal_only(tmp_path: Path) -> None:
    journal = new_journal(tmp_path, FailingDisk(fail_at=0, for_ever=True))
    assert not journal.kept
    assert journal.view(PLACES[0]) is None
    journal.handed_out(PLACES[0], [run(PLACES[0], 0, 9)])
    journal.done_before({PLACES[0]: 5}, 1)
    ((cell,),) = [event.cells for event in journal.processing.books.report(1, 1)]
    assert cell.acknowledged == RangeSet.single(0, 4)
    journal.close(remove=True)


# -- after a death --------------------------------------------------------------------------


def last_cells(folder: Path) -> list[CellReport]:
    (orphan,) = find_orphans(folder, CLUSTER)
    try:
        events = orphan.events(100)
        assert events[-1].closed
        assert events[-1].consumer_group == "g"
        assert all(event.copied == () for event in events), "others have moved on since"
        return [cell for event in events for cell in event.cells]
    finally:
        orphan.release(remove=True)
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("hold", "processed", "doubted"),
    [
        (InFlightMark(), "", ""),
        (InFlightMark(14, ONE), "10-13", "14"),
        (InFlightMark(14, 17), "10-13", "14-17"),
        (InFlightMark(14, -2), "10-13", ""),
        (InFlightMark(99, -2), "10-19", ""),
        (InFlightMark(10, 99), "", "10-19"),
    ],
)
def test_a_death_tells_what_was_processed_and_what_was_in_hand(
    tmp_path: Path, hold: InFlightMark, processed: str, doubted: str
) -> None:
    """Killed between two reports: what the marks say is all that is known."""
    journal = new_journal(tmp_path)
    view = journal.view(PLACES[0])
    assert view is not None
    journal.handed_out(PLACES[0], [run(PLACES[0], 10, 10)])
    view[0], view[1] = hold
    journal.close(remove=False)
    cells = last_cells(tmp_path)
    if not processed and not doubted:
        assert cells == []
    else:
        (cell,) = cells
        assert (cell.acknowledged, cell.in_doubt) == (span(processed), span(doubted))


def test_a_partition_that_is_given_up_leaves_what_was_processed(tmp_path: Path) -> None:
    """The session was lost with 4 messages processed since the last commit: they come again to
    another member, and were reported by nobody."""
    journal = new_journal(tmp_path)
    place = PLACES[0]
    view = journal.view(place)
    assert view is not None
    journal.handed_out(place, [run(place, 0, 10)])
    view[0], view[1] = 4, ONE
    journal.released(place, 9)
    ((cell,),) = [event.cells for event in journal.processing.books.report(9, 9)]
    assert (cell.acknowledged, cell.in_doubt) == (span("0-3"), span("4"))
    assert list(view) == list(InFlightMark()), "the partition may come back"
    journal.close(remove=True)


def test_going_back_is_not_taken_for_processed(tmp_path: Path) -> None:
    """The application went back to offset 5, and was killed before it was given a message."""
    journal = new_journal(tmp_path)
    place = PLACES[0]
    view = journal.view(place)
    assert view is not None
    journal.handed_out(place, [run(place, 0, 10)])
    view[0], view[1] = 10, -2
    journal.done_before({place: 10}, 5)
    journal.handed_out(place, [run(place, 5, 5)])
    journal.close(remove=False)
    (cell,) = last_cells(tmp_path)
    assert (cell.acknowledged, cell.again) == (span("0-9"), ())


def test_without_marks_only_what_was_stored_is_processed(tmp_path: Path) -> None:
    journal = new_journal(tmp_path)
    journal.view(PLACES[0])
    journal.handed_out(PLACES[0], [run(PLACES[0], 0, 10)])
    journal.done_before({PLACES[0]: 3}, 5)
    journal.close(remove=False)
    journal.path.with_suffix(MARKS_SUFFIX).unlink()
    (cell,) = last_cells(tmp_path)
    assert (cell.acknowledged, cell.in_doubt) == (span("0-2"), EMPTY)


@pytest.mark.slow
def test_marks_without_a_journal_are_removed_when_nobody_has_them(tmp_path: Path) -> None:
    """A consumer was killed before it knew its cluster, or while the disk took no journal."""
    journal = ConsumerJournal(tmp_path, IDENTITY, "g", 1000, 10**15)
    journal.view(PLACES[0])
    assert list(find_orphans(tmp_path, CLUSTER)) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [MARKS_SUFFIX], "it lives"
    journal.close(remove=False)
    del journal  # and its memory, which holds the lock
    gc.collect()
    assert list(find_orphans(tmp_path, CLUSTER)) == []
    assert list(tmp_path.iterdir()) == []


def test_a_view_outlives_its_file(tmp_path: Path) -> None:
    """A stream may still be read when the audit is closed."""
    marks = MarksFile(tmp_path / "a.marks", Disk())
    taken = marks.take()
    assert taken is not None
    slot, view = taken
    view[0], view[1] = 5, 9
    assert read_marks(marks.path)[slot] == InFlightMark(5, 9)
    marks.close(remove=True)
    view[0] = 6
    assert list(tmp_path.iterdir()) == []


# -- the marks ------------------------------------------------------------------------------


def memory() -> memoryview:
    return memoryview(bytearray(16)).cast("q")


@given(st.lists(st.integers(0, 2**62), min_size=1, unique=True).map(sorted), st.data())
def test_the_marks_follow_every_message(offsets: list[int], data: Any) -> None:
    """As the stream calls them: one by one, or several at once; asking again settles."""
    view = memory()
    marks = Marks([view], asking_settles=True)
    left = list(offsets)
    while left:
        many = data.draw(st.integers(1, len(left)))
        some, left = left[:many], left[many:]
        if data.draw(st.booleans()):
            marks.hand_out(some[0], some[-1])
            assert InFlightMark(*view) == InFlightMark(some[0], some[-1])
        else:
            marks.hand_out_one(some[0])
            following = marks.follow(iter(some[1:]))
            for offset in some[1:]:
                assert next(following) == offset
                assert InFlightMark(*view) == InFlightMark(offset, ONE)
        marks.settle(some[-1] + 1)
        assert InFlightMark(*view) == InFlightMark(some[-1] + 1, NONE)
    assert (ONE_MARK, InFlightMark().last) == (ONE, NONE)


def test_where_asking_settles_nothing_all_stays_in_hand() -> None:
    view = memory()
    view[0], view[1] = InFlightMark()
    marks = Marks([view], asking_settles=False)
    marks.hand_out_one(10)
    assert list(marks.follow(iter([11, 12]))) == [11, 12]
    marks.settle(13)
    marks.hand_out(13, 15)
    assert InFlightMark(*view) == InFlightMark(10, 15)
    marks.hand_out_one(4)  # it went back
    assert InFlightMark(*view) == InFlightMark(4, 4)


def span(text: str) -> RangeSet:
    if not text:
        return EMPTY
    first, _, last = text.partition("-")
    return RangeSet.single(int(first), int(last or first))
