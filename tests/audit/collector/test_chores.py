"""Schedule are done when they are due, whatever becomes of the others."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import OperationalError

from tallymark.errors import ConnectError
from tallymark_audit.collector.backoff import Backoff
from tallymark_audit.collector.schedule import Doing, Schedule
from tallymark_audit.store.counted.positions import FencedError


class Clock:
    """Says what it is told."""

    now = 0

    def __call__(self) -> int:
        return self.now


def run(chores: Schedule, clock: Clock, until: int, every: int = 100, busy: bool = False) -> None:
    while clock.now < until:
        chores.step(clock, busy)
        clock.now += every


def test_each_runs_at_its_own_pace() -> None:
    done: list[tuple[str, int]] = []
    often = Doing("often", 200, lambda now: done.append(("often", now)))
    seldom = Doing("seldom", 500, lambda now: done.append(("seldom", now)))
    clock = Clock()
    run(Schedule([often, seldom], Backoff("x")), clock, 1000)
    assert [now for name, now in done if name == "often"] == [0, 200, 400, 600, 800]
    assert [now for name, now in done if name == "seldom"] == [0, 500]


@pytest.mark.parametrize(
    ("busy", "begun"),
    [(True, [0, 8000, 16_000, 24_000, 32_000]), (False, list(range(0, 40_000, 2100)))],
)
def test_one_that_takes_long_leaves_most_of_the_time_to_counting(
    busy: bool, begun: list[int]
) -> None:
    """With 5,000 open cells judging took longer than its pace: as soon as it ended it was due
    again, and counting got a fifth of the time. With little to count, to wait is no use: what a
    broker had lost was named two minutes late."""
    clock = Clock()
    judged: list[int] = []

    def judge(now: int) -> None:
        judged.append(now)
        clock.now += 2000

    run(Schedule([Doing("judging", 1000, judge)], Backoff("x")), clock, 40_000, busy=busy)
    assert judged == begun


@pytest.mark.parametrize(
    "error",
    [
        OperationalError("x", {}, Exception("full")),
        ConnectError("a:1", "connect", "no"),
        ValueError("what nobody expects: a range cannot end before it starts"),
    ],
)
def test_one_that_fails_is_tried_later_and_the_others_go_on(error: Exception) -> None:
    tried: list[int] = []
    done: list[int] = []

    def fail(now: int) -> None:
        tried.append(now)
        if now < 3000:
            raise error

    troubles = Backoff("x")
    chores = Schedule([Doing("bad", 100, fail), Doing("good", 100, done.append)], troubles)
    clock = Clock()
    run(chores, clock, 3000)
    assert len(done) == 30
    assert 3 <= len(tried) <= 6  # 200, 400, 800, ... ms apart
    assert troubles.pause_ms("bad") > 0
    run(chores, clock, 10_000)
    assert troubles.pause_ms("bad") == 0
    assert len(tried) > 40


def test_being_fenced_off_ends_the_round() -> None:
    done: list[int] = []

    def fenced(now: int) -> None:
        raise FencedError("somebody else")

    chores = Schedule([Doing("judging", 1, fenced), Doing("after", 1, done.append)], Backoff("x"))
    with pytest.raises(FencedError):
        chores.step(Clock())
    assert not done
