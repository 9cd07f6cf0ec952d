"""Long lists in small turns of the event loop, so that one request does not hold up all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
_TURN: Final = 50


async def in_turns(items: Iterable[T], turn: int = _TURN) -> AsyncIterator[T]:
    """The items; after each ``turn`` of them others have theirs."""
    for number, item in enumerate(items, 1):
        yield item
        if number % turn == 0:
            await asyncio.sleep(0)
