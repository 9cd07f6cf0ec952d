"""Long work in small parts: on the event loop in turns, so that one request does not delay all
others; in a thread in slices, so that the thread does not delay the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_TURN: Final = 50
SLICE_SECONDS: Final = 0.003
"""How long a thread works without a pause. The interpreter takes its lock from it for the event
loop after 5 ms only, and only between two of its own instructions."""
LONGEST_PAUSE: Final = 1.0
"""For how many seconds a thread waits for a turn of the event loop; a stopped one has none."""


async def in_turns(items: Iterable[T], turn: int = _TURN) -> AsyncIterator[T]:
    """The items; after every ``turn`` items the event loop runs other tasks."""
    for number, item in enumerate(items, 1):
        yield item
        if number % turn == 0:
            await asyncio.sleep(0)


async def side_by_side(items: Sequence[T], work: Callable[[T], Awaitable[R]], most: int) -> list[R]:
    """The results of ``work`` in the order of ``items``. It is begun in that order, for at most
    ``most`` items at a time; after each one the event loop runs other tasks. An error of one
    cancels the others."""
    left = enumerate(items)
    results: dict[int, R] = {}

    async def one_after_the_other() -> None:
        for number, item in left:
            results[number] = await work(item)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(most, len(items))):
            group.create_task(one_after_the_other())
    return [results[number] for number in range(len(items))]


class Slices:
    """Ends a thread's slice by ``clock`` (seconds): calls ``pause``, which returns when others had
    their turn."""

    def __init__(self, clock: Callable[[], float], pause: Callable[[], object]) -> None:
        self._clock = clock
        self._pause = pause
        self._end = clock() + SLICE_SECONDS

    def look(self) -> None:
        """To be called after each small part of the work."""
        if self._clock() >= self._end:
            self._pause()
            self._end = self._clock() + SLICE_SECONDS


def turn_of(
    loop: asyncio.AbstractEventLoop, longest: float | None = LONGEST_PAUSE
) -> Callable[[], object]:
    """For a thread: waits until ``loop`` has run what it had to run, at most ``longest`` seconds. A
    sleep would not do: on a busy machine the thread wakes before the loop does, however long it
    sleeps, and takes the interpreter's lock again."""
    turn = threading.Event()

    def pause() -> None:
        turn.clear()
        loop.call_soon_threadsafe(turn.set)
        turn.wait(longest)

    return pause
