"""States of groups from one look to the next; nothing is asked here."""

import gc
import tracemalloc

import pytest

from tallymark.client.admin.groups import GroupDescription, MemberDescription
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.group_book import Ends, GroupBook, Seen
from tallymark_dashboards.snapshots.shapes import CoursePoint, Delay, GroupState, Status

S = 1000
AT: TopicPartition = ("clicks", 0)


def look(
    book: GroupBook, offset: int | None, end: int, now: int, *, owned: bool = True, start: int = 0
) -> GroupState:
    members = (MemberDescription("m-1", client_id="web", partitions=(AT,)),) if owned else ()
    described = GroupDescription("loader", "Stable" if owned else "Empty", members=members)
    offsets = {} if offset is None else {AT: offset}
    ends = {AT: Ends(start, end, now)}
    book.follow(ends, {AT})
    return book.state(Seen("brokers", described, offsets, now), ends, now)


def test_a_group_that_reads_has_its_lag_in_messages_and_in_seconds() -> None:
    book = GroupBook()
    found = look(book, 0, 50, 0)
    for step in range(1, 6):
        found = look(book, 100 * step, 100 * step + 50, step * 10 * S)
    assert (found.lag, found.status) == (50, Status.OK)
    # Offset 500 is half way between the ends of the last two looks, 450 and 550.
    assert found.delay == Delay(4900)
    assert found.partitions[0].owner == "m-1"
    assert book.course_of("loader")[-1] == CoursePoint(50 * S, 50, 4900)
    # What stays the same takes two points.
    assert [one.at for one in book.course_of("loader")] == [0, 10 * S, 50 * S]


def test_a_group_without_members_that_has_messages_to_read_is_stopped() -> None:
    book = GroupBook()
    found = look(book, 7, 50, 0, owned=False)
    for step in range(1, 40):
        found = look(book, 7, 50 + step, step * 10 * S, owned=False)
    assert found.status is Status.STOPPED
    assert "no member" in found.why
    assert found.why.startswith("clicks-0: ")
    assert found.delay == Delay(390 * S, least=True)


def test_collectors_are_no_group_of_which_too_little_was_seen() -> None:
    """``tallymark-audit-shop`` was UNKNOWN, "no offset is committed yet (and 1,209 more
    partitions)", for as long as the collectors ran: they never commit one."""
    members = (MemberDescription("m-1", client_id="c", partitions=(AT, ("clicks", 1))),)
    described = GroupDescription("tallymark-audit-shop", "Stable", members=members)
    found = GroupBook().state(Seen("brokers", described, {}, S), {}, S)
    assert found.status is Status.UNKNOWN
    assert found.why.startswith("collectors of the audit commit no offsets")


def test_the_time_of_the_next_record_replaces_what_is_at_least_known() -> None:
    book = GroupBook()
    book.follow({}, {AT})
    found = look(book, 7, 50, 900 * S)
    assert found.delay == Delay(0, least=True)
    assert list(book.wanting(found)) == [(AT, 7)]
    book.record_at(AT, 7, 100 * S)
    found = look(book, 7, 50, 910 * S)
    assert found.delay == Delay(810 * S)
    assert list(book.wanting(found)) == []
    # The group has moved on, still to where the course does not reach.
    assert look(book, 9, 50, 920 * S).delay == Delay(20 * S, least=True)


def test_what_is_not_known_is_never_good() -> None:
    book = GroupBook()
    nothing = look(book, None, 50, 10 * S)
    assert (nothing.status, nothing.lag, nothing.delay) == (Status.UNKNOWN, None, None)
    assert "no offset is committed yet" in nothing.why
    described = GroupDescription("loader", "Stable")
    no_ends = book.state(Seen("brokers", described, {AT: 5}, 1), {}, 20 * S)
    assert (no_ends.status, no_ends.lag) == (Status.UNKNOWN, None)
    failed = book.state(Seen("brokers", described, {AT: 5}, 1, "timed out"), {}, 20 * S)
    assert "timed out" in failed.why


def test_an_end_that_was_read_before_the_offset_is_no_other_log() -> None:
    """With more than 5,000 partitions their ends are read in turns, offsets of groups more often: a
    group that keeps up was WARN, since its offset was beyond the end as it was read 20 s before."""
    book = GroupBook()
    described = GroupDescription("loader", "Stable")
    for step in range(1, 8):
        now = step * 10 * S
        read = Ends(0, 100 * (step // 3), now - step % 3 * 10 * S - 1)
        found = book.state(Seen("brokers", described, {AT: 100 * step}, now), {AT: read}, now)
        assert (found.status, found.lag) == (Status.OK, 0), found.why
    later = Ends(0, 30, 90 * S)
    shorter = book.state(Seen("brokers", described, {AT: 700}, 80 * S), {AT: later}, 90 * S)
    assert shorter.status is Status.WARN
    assert "670 beyond the end of the log" in shorter.why


def look_at_all(book: GroupBook, groups: int, step: int) -> None:
    now = step * 10 * S
    ends: dict[TopicPartition, Ends] = {
        (f"t{n}", part): Ends(0, step * 9, now) for n in range(groups) for part in (0, 1)
    }
    book.follow(ends, ends.keys())
    for n in range(groups):
        described = GroupDescription(f"g{n}", "Stable")
        offsets: dict[TopicPartition, int] = {(f"t{n}", part): step * 7 for part in (0, 1)}
        book.state(Seen("brokers", described, offsets, now), ends, now)


@pytest.mark.slow
def test_ten_thousand_groups_stay_small() -> None:
    """10,000 groups with two partitions each, looked at until every course is full."""
    looks, groups = 130, 20  # a few of them: what each takes is the same
    book = GroupBook()
    gc.collect()
    tracemalloc.start()
    for step in range(looks):
        look_at_all(book, groups, step)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / groups < 9_000  # 90 MB of 10,000 such groups
    book.keep_only(set())
    book.follow({}, set())
    assert book.course_of("g0") == ()
