"""Producer ids from blocks that no other broker has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable


class ProducerIds:
    """``take`` takes a block for this broker alone; it may raise. Belongs to one loop."""

    def __init__(self, take: Callable[[], Awaitable[Iterable[int]]]) -> None:
        self._take = take
        self._left: list[int] = []
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """An id that no other producer has or will get."""
        async with self._taking:
            if not self._left:
                self._left = list(reversed(list(await self._take())))
            return self._left.pop()
