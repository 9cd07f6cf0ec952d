"""CONCURRENT_TRANSACTIONS: the coordinator is still ending the transaction before, mostly for a few
milliseconds. What asks it is asked again here: a client would wait 20 ms or more, which is most of
a short transaction (KAFKA-18654)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tallymark.transactions.inputs import CONCURRENT

A = TypeVar("A")

PAUSES_MS: Final = (2, 4, 8, 16, 32, 64)
"""Before each repetition. One replica has its markers within the first, three within the next."""
TRIES: Final = len(PAUSES_MS) + 1


async def asked_again(ask: Callable[[], Awaitable[A]], code_of: Callable[[A], int]) -> A:
    """The answer to ``ask``: the first that is not CONCURRENT_TRANSACTIONS, else the last of
    :data:`TRIES`."""
    answer = await ask()
    for pause in PAUSES_MS:
        if code_of(answer) != CONCURRENT:
            break
        await asyncio.sleep(pause / 1000)
        answer = await ask()
    return answer
