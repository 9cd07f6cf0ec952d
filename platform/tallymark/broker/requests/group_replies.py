"""Answers that come now or later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tallymark.groups.inputs import JoinReply, SyncReply
from tallymark.protocol.schema import Message

R = TypeVar("R", JoinReply, SyncReply)
M = TypeVar("M", bound=Message)


def when(answer: asyncio.Future[R], respond: Callable[[R], M]) -> M | Awaitable[M]:
    """The response made of the answer: at once where there is one, so that no task is needed."""
    return respond(answer.result()) if answer.done() else _later(answer, respond)


async def _later(answer: asyncio.Future[R], respond: Callable[[R], M]) -> M:
    return respond(await answer)
