"""Virtual time: acts in the order of their times, of equal times in the order they were added.

Nothing waits: the time jumps to that of the next act. So a run depends on nothing but its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Agenda:
    """What will happen. ``now_ms`` is the virtual time, from 0."""

    __slots__ = ("_acts", "_count", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._count = 0
        self._acts: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._acts)

    def after(self, delay_ms: int, act: Callable[..., object], *arguments: object) -> None:
        """``act(*arguments)`` in ``delay_ms``."""
        self.at(self.now_ms + delay_ms, act, *arguments)

    def at(self, time_ms: int, act: Callable[..., object], *arguments: object) -> None:
        """``act(*arguments)`` at ``time_ms``; a time that is over is now."""
        self._count += 1
        heappush(self._acts, (max(time_ms, self.now_ms), self._count, act, arguments))

    def step(self) -> bool:
        """Do the next act; False if there is none."""
        if not self._acts:
            return False
        self.now_ms, _, act, arguments = heappop(self._acts)
        act(*arguments)
        return True
