"""Requests that wait until records are exposed: each is answered once, by what comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.partitions.commit_waits import CommitWaits
from tallymark.errors import KafkaError

GONE = KafkaError(6, "t-0 is gone")
HOUR_MS = 3_600_000


class Told:
    """What waiters were told, in order."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[object, str]] = []

    def waiter(self, name: object) -> Callable[[KafkaError | None], None]:
        return lambda error: self.outcomes.append((name, error.name if error else "NONE"))

    async def until(self, count: int) -> list[tuple[object, str]]:
        """The outcomes, when there are so many."""
        while len(self.outcomes) < count:
            await asyncio.sleep(0.001)
        return self.outcomes


def test_they_are_answered_in_the_order_of_their_offsets() -> None:
    async def story() -> None:
        waits, told = CommitWaits(3), Told()
        for end in (7, 3, 5):
            waits.add(end, told.waiter(end), HOUR_MS)
        waits.exposed(2)
        assert told.outcomes == []
        waits.exposed(5)
        assert told.outcomes == [(3, "NONE"), (5, "NONE")]
        waits.fail(GONE)
        assert told.outcomes[2:] == [(7, "NOT_LEADER_OR_FOLLOWER")]
        assert len(waits) == 0

    asyncio.run(story())


def test_the_one_timer_is_for_the_first_deadline() -> None:
    """A request with a short timeout came after one with a long one: it waited as long."""

    async def story() -> None:
        waits, told = CommitWaits(0), Told()
        waits.add(1, told.waiter("slow"), HOUR_MS)
        waits.add(2, told.waiter("second"), 20)
        waits.add(3, told.waiter("first"), 1)
        waits.add(4, told.waiter("late"), -10)
        found = await told.until(3)
        assert [name for name, _ in found] == ["late", "first", "second"]
        assert {outcome for _, outcome in found} == {"REQUEST_TIMED_OUT"}
        waits.exposed(9)
        assert told.outcomes[3:] == [("slow", "NONE")]

    asyncio.run(story())


def test_the_timer_is_set_again_after_all_were_answered() -> None:
    async def story() -> None:
        waits, told = CommitWaits(0), Told()
        for round_ in range(3):
            waits.add(round_, told.waiter(round_), 5)
            waits.exposed(round_)
        waits.add(9, told.waiter("times out"), 10)
        assert (await told.until(4))[3:] == [("times out", "REQUEST_TIMED_OUT")]
        waits.add(10, told.waiter("again"), 1)
        assert (await told.until(5))[4:] == [("again", "REQUEST_TIMED_OUT")]

    asyncio.run(story())


def test_one_that_is_forgotten_is_not_answered() -> None:
    async def story() -> None:
        waits, told = CommitWaits(0), Told()
        ticket = waits.add(1, told.waiter("gone"), 1)
        waits.add(1, told.waiter("there"), 2)
        waits.forget(ticket)
        assert await told.until(1) == [("there", "REQUEST_TIMED_OUT")]
        waits.forget(ticket)
        waits.fail(GONE)
        assert len(told.outcomes) == 1

    asyncio.run(story())


@given(st.lists(st.tuples(st.sampled_from("afe!"), st.integers(0, 20)), max_size=60))
def test_each_is_answered_once_and_never_too_early(steps: list[tuple[str, int]]) -> None:
    async def story() -> None:
        waits, told = CommitWaits(0), Told()
        waiting: dict[int, tuple[int, object]] = {}
        for number, (what, offset) in enumerate(steps):
            before = len(told.outcomes)
            if what == "a":
                waiting[number] = offset, waits.add(offset, told.waiter(number), HOUR_MS)
            elif what == "f" and waiting:
                _, ticket = waiting.pop(next(iter(waiting)))
                waits.forget(ticket)  # type: ignore[arg-type]
            elif what == "e":
                waits.exposed(offset)
                expected = {name for name, (end, _) in waiting.items() if end <= offset}
                assert {name for name, _ in told.outcomes[before:]} == expected
            elif what == "!":
                waits.fail(GONE)
                assert [name for name, _ in told.outcomes[before:]] == sorted(
                    waiting, key=lambda name: (waiting[name][0], name)
                )
            for name, _ in told.outcomes[before:]:
                del waiting[name]  # type: ignore[arg-type]
            assert len(waits) == len(waiting)
        names = [name for name, _ in told.outcomes]
        assert len(names) == len(set(names))

    asyncio.run(story())
