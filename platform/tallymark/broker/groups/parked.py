"""Answers to joins and syncs that wait until a rebalance goes on, and the log line of a change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final, TypeAlias, TypeVar

from tallymark.groups.group import Group
from tallymark.groups.inputs import JoinReply, Reply, SyncReply

log: Final = logging.getLogger(__name__)

R = TypeVar("R", JoinReply, SyncReply)
Answer: TypeAlias = Callable[[Reply | int], None]
"""Called once with the reply, or with an error code in its place."""


class Parked:
    """The answers that wait until a rebalance goes on, by ticket. Belongs to the event loop."""

    def __init__(self) -> None:
        self._tickets = count(1)
        self._answers: dict[int, Answer] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def park(self, kind: type[R]) -> tuple[int, asyncio.Future[R]]:
        """A new ticket, and the answer that it will get."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply | int) -> None:
            if future.done():
                return  # the broker stops, and has cancelled the requests that waited
            if isinstance(reply, int):
                reply = kind(error=reply)
            assert isinstance(reply, kind)
            future.set_result(reply)

        ticket = next(self._tickets)
        self._answers[ticket] = answer
        return ticket, future

    def take(self, ticket: int) -> Answer:
        """What answers it; it is not parked any more."""
        return self._answers.pop(ticket)

    def refuse_all(self, code: int) -> None:
        """All that wait get this error code."""
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            answer(code)


def log_change(before: Group, after: Group) -> None:
    """Log the new state or generation of a group, if it has one."""
    if before.state is not after.state or before.generation != after.generation:
        log.info(
            "group %s -> %s group=%.249r generation=%d members=%d protocol=%.99r leader=%.300r",
            before.state.value,
            after.state.value,
            after.group_id,
            after.generation,
            len(after.members),
            after.protocol,
            after.leader,
        )
