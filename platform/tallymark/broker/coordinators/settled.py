"""An answer that may have to wait until what it was decided from is committed.

With one replica it never does, and nothing is made for it: the answer itself is returned, in the
same turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

A = TypeVar("A")
B = TypeVar("B")

Settled: TypeAlias = A | asyncio.Future[A]
"""The answer, or a future of it. The future has a result in any case: an answer with an error code
where the wait ends otherwise."""


def respond(answer: Settled[A], make: Callable[[A], B]) -> B | Awaitable[B]:
    """``make`` of the answer, now or later."""
    if isinstance(answer, asyncio.Future):
        return _later(answer, make)
    return make(answer)


async def when(answer: Settled[A]) -> A:
    """The answer, for one that waits for several: each in turn, after all of them were asked."""
    if isinstance(answer, asyncio.Future):
        found: A = await answer
        return found
    return answer


async def _later(answer: asyncio.Future[A], make: Callable[[A], B]) -> B:
    return make(await answer)
