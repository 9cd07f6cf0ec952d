"""Iterates long lists in small turns of the event loop, so that one request does not delay all
others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
_TURN: Final = 50


async def in_turns(items: Iterable[T], turn: int = _TURN) -> AsyncIterator[T]:
    """The items; after every ``turn`` items the event loop runs other tasks."""
    for number, item in enumerate(items, 1):
        yield item
        if number % turn == 0:
            await asyncio.sleep(0)
