"""Long work in small parts: on the event loop in turns, so that one request does not delay all
others; in a thread in slices, so that the thread does not delay the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
_TURN: Final = 50
SLICE_SECONDS: Final = 0.003
"""How long a thread works without a pause. The interpreter takes its lock from it for the event
loop after 5 ms only, and only between two of its own instructions."""
PAUSE_SECONDS: Final = 0.0002
"""Enough for the event loop, if it waits, to get the interpreter's lock."""


async def in_turns(items: Iterable[T], turn: int = _TURN) -> AsyncIterator[T]:
    """The items; after every ``turn`` items the event loop runs other tasks."""
    for number, item in enumerate(items, 1):
        yield item
        if number % turn == 0:
            await asyncio.sleep(0)


class Slices:
    """Pauses a thread whose slice is over by ``clock`` (seconds); ``pause`` sleeps for so many."""

    def __init__(self, clock: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._end = clock() + SLICE_SECONDS

    def look(self) -> None:
        """To be called after each small part of the work."""
        if self._clock() >= self._end:
            self._pause(PAUSE_SECONDS)
            self._end = self._clock() + SLICE_SECONDS
