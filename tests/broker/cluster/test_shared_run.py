"""Callers that want an image of now share the reading of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tallymark.broker.metadata.shared_run import SharedRun


@dataclass
class Reading:
    """Each read returns how many began before it; it ends when the test lets it."""

    began: int = 0
    running: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    async def __call__(self) -> int:
        number, self.began = self.began, self.began + 1
        self.running += 1
        assert self.running == 1, "never two at the same time"
        try:
            await self.go.wait()
            if self.error is not None:
                raise self.error
            return number
        finally:
            self.running -= 1


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_callers_that_come_while_one_runs_share_the_next() -> None:
    async def body() -> None:
        reading = Reading()
        refresh = SharedRun(reading)
        first = asyncio.create_task(refresh())
        await _turns()
        others = [asyncio.create_task(refresh()) for _ in range(100)]
        await _turns()
        assert reading.began == 1
        reading.go.set()
        assert await first == 0
        assert await asyncio.gather(*others) == [1] * 100

    asyncio.run(body())


def test_no_caller_gets_what_was_read_before_it_called() -> None:
    """A caller that takes the reading under way may miss the topic that it has just created."""

    async def body() -> None:
        reading = Reading()
        reading.go.set()
        refresh = SharedRun(reading)

        async def call(delay: int) -> None:
            await _turns(delay)
            before = reading.began
            assert await refresh() >= before

        await asyncio.gather(*(call(delay % 17) for delay in range(200)))
        assert reading.began < 60

    asyncio.run(body())


def test_an_error_goes_to_those_that_waited_for_it_and_the_next_reads_again() -> None:
    async def body() -> None:
        reading = Reading(error=OSError("the disk"))
        reading.go.set()
        refresh = SharedRun(reading)
        failed = await asyncio.gather(refresh(), refresh(), return_exceptions=True)
        assert [str(each) for each in failed] == ["the disk", "the disk"]
        assert reading.began == 1
        reading.error = None
        assert await refresh() == 1

    asyncio.run(body())


def test_a_caller_that_gives_up_leaves_it_to_the_others() -> None:
    async def body() -> None:
        reading = Reading()
        refresh = SharedRun(reading)
        gone, stays = asyncio.create_task(refresh()), asyncio.create_task(refresh())
        await _turns()
        gone.cancel()
        await _turns()
        reading.go.set()
        assert await stays == 0
        with pytest.raises(asyncio.CancelledError):
            await gone

    asyncio.run(body())


def test_a_stop_waits_and_then_cancels_what_hangs() -> None:
    async def body() -> None:
        reading = Reading()
        refresh = SharedRun(reading)
        running = asyncio.create_task(refresh())
        await _turns()
        later = asyncio.create_task(refresh())
        await _turns()
        await refresh.stop(0.01)
        for each in (running, later):
            with pytest.raises(asyncio.CancelledError):
                await each
        assert (reading.began, reading.running) == (1, 0)
        reading.go.set()
        assert await refresh() == 1, "a stopped one reads again when it is asked"

    asyncio.run(body())
