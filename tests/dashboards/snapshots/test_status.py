"""How a group does with a partition."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.snapshots.shapes import Status
from tallymark_dashboards.snapshots.status import (
    ENOUGH,
    LONGEST_MS,
    UNSEEN_MS,
    Commit,
    Position,
    Window,
    judge,
    lag_of,
)

S = 1000
NOW = 10_000_000


def course(*lags: int, every: int = 10 * S, until: int = NOW) -> list[Commit]:
    """Commits of 100 messages each, the last one at ``until``, with these lags."""
    first = until - (len(lags) - 1) * every
    return [Commit(first + i * every, 100 * (i + 1), lag) for i, lag in enumerate(lags)]


def at(commits: list[Commit], owned: bool = True, start: int = 0) -> Position:
    last = commits[-1]
    return Position(last.offset, start, last.offset + last.lag, owned)


TABLE: dict[str, tuple[list[Commit], dict[str, Any], int, Status, str]] = {
    "caught up": (course(5, 0), {}, NOW, Status.OK, "everything is read"),
    "caught up long ago, without members": (
        course(5, 0), {"owned": False}, NOW + 900 * S, Status.OK, "everything",
    ),
    "reads and catches up": (course(50, 40, 30, 20), {}, NOW, Status.OK, "it reads"),
    "a constant number is under way": (course(50, 50, 50, 50), {}, NOW, Status.OK, "it reads"),
    "was there a while ago": (course(50, 60, 0, 70, 80), {}, NOW, Status.OK, "short while ago"),
    "lag grows": (course(50, 60, 60, 90), {}, NOW, Status.WARN, "40 more in 4 commits"),
    "lag grows, seen three times": (course(50, 60, 90), {}, NOW, Status.OK, "it reads"),
    "one commit": (course(50), {}, NOW + 10 * S, Status.UNKNOWN, "too few"),
    "one commit, long ago": (course(50), {}, NOW + UNSEEN_MS + 1, Status.STALLED, "for 5 min"),
    "stands still": (course(9, 9, 9, 9), {}, NOW + 61 * S, Status.STALLED, "for 1 min 1 s"),
    "quiet for a moment": (course(9, 8, 8, 7), {}, NOW + 59 * S, Status.OK, "it reads"),
    "members are gone": (
        course(9, 9, 9, 9), {"owned": False}, NOW + 61 * S, Status.STOPPED, "no member",
    ),
    "was caught up once, then members went": (
        course(9, 0, 9, 9), {"owned": False}, NOW + 61 * S, Status.STOPPED, "no member",
    ),
    "commits every 100 s": (
        course(9, 9, 9, 9, every=100 * S), {}, NOW + 299 * S, Status.OK, "it reads",
    ),
    "committed every 100 s": (
        course(9, 9, 9, 9, every=100 * S), {}, NOW + 301 * S, Status.STALLED, "for 5 min 1 s",
    ),
    "commits of a whole day": (
        course(9, 9, 9, 9, every=8 * 3600 * S), {}, NOW + LONGEST_MS + 1, Status.STALLED, "10 min",
    ),
    "deleted before it was read": (
        course(50, 40, 30), {"start": 310}, NOW, Status.WARN, "10 messages were deleted",
    ),
    "everything was deleted": (
        course(50, 40, 30), {"start": 330}, NOW, Status.WARN, "30 messages were deleted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_the_rules_by_example(name: str) -> None:
    commits, place, now, status, text = TABLE[name]
    found, why = judge(commits, 0, at(commits, **place), now)
    assert (found, text in why) == (status, True), why


def test_an_offset_beyond_the_end_of_the_log_is_a_warning() -> None:
    found, why = judge(course(50), 0, Position(100, 0, 40, owned=True), NOW)
    assert (found, "60 beyond the end" in why) == (Status.WARN, True)


def test_an_offset_that_was_set_back_is_a_warning() -> None:
    commits = [Commit(NOW - 20 * S, 900, 5), Commit(NOW - 10 * S, 100, 805)]
    assert judge(commits, 0, at(commits), NOW)[0] is Status.WARN


def test_nothing_committed_is_unknown_and_never_ok() -> None:
    assert judge([], 0, Position(0, 0, 5, owned=True), NOW)[0] is Status.UNKNOWN


def test_a_consumer_of_an_idle_topic_does_not_stall_with_the_first_new_message() -> None:
    """A consumer that had read everything an hour ago was STALLED at the moment at which the next
    message arrived: its last commit was an hour old, and there was something to read."""
    window = Window()
    for look in range(0, 3600 * S, 10 * S):
        window.see(look, 100, 0)
    now = 3600 * S
    window.see(now, 100, 7)
    here = Position(100, 0, 107, owned=True)
    assert judge(window.commits, window.calm_at, here, now)[0] is Status.OK
    for look in range(now, now + 400 * S, 10 * S):
        window.see(look, 100, 7)
    assert judge(window.commits, window.calm_at, here, now + 400 * S)[0] is Status.STALLED


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=60),
    st.booleans(),
)
def test_whatever_is_seen_the_status_says_no_more_than_was_seen(
    looks: list[tuple[int, int]], owned: bool
) -> None:
    """``looks``: how many messages were written and read between two looks."""
    window, end, offset, now = Window(), 0, 0, 0
    for written, read in looks:
        now += 10 * S
        end += written
        offset = min(end, offset + read)
        window.see(now, offset, end - offset)
    here = Position(offset, 0, end, owned)
    found, why = judge(window.commits, window.calm_at, here, now)
    moved = [one for one, read in enumerate(looks) if read[1]]
    assert why
    assert len(window.commits) <= 10
    if offset == end:
        assert found is Status.OK
    if found in (Status.STALLED, Status.STOPPED):
        # It has moved in none of the last six looks, though there was something to read.
        last = window.commits[-1].at
        assert now - last > 60 * S
        assert end > offset
        assert (found is Status.STALLED) == owned
    if found is Status.WARN:
        assert len(window.commits) >= ENOUGH
        assert window.commits[-1].lag > window.commits[0].lag
    if moved and moved[-1] == len(looks) - 1 and len(window.commits) > 1:
        assert found in (Status.OK, Status.WARN)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_the_lag_counts_only_messages_that_are_there(offset: int, start: int, more: int) -> None:
    end = start + more
    there = [one for one in range(start, end) if one >= offset]
    assert lag_of(offset, start, end) == len(there)
