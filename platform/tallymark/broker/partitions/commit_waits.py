"""Requests that wait until their records are exposed: producers with ``acks=all``, and the answers
of coordinators.

::

    one replica                  the append itself exposes: nothing waits
      flush.before.expose        the flush (section 3.1 of the Kafka paper: "a message is only
                                 exposed to the consumers after it is flushed")
    several replicas             the high watermark: the maximal ISR has the records

They wait in the heaps of :mod:`tallymark.replication.acks`, one object for each partition and
leader epoch. A request is neither a task nor a timer: a partition has one timer, for the first
deadline. Deadlines are by the clock of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from tallymark.errors import KafkaError
from tallymark.replication.acks import TIME_IS_UP, Ticket, WaitingForAll

Waiter: TypeAlias = Callable[[KafkaError | None], None]
"""Called once: None when the records are exposed, else with the error by which they are not, or not
yet. Must return at once, and raise nothing."""
CommitTicket: TypeAlias = Ticket[Waiter]


class CommitWaits:
    """The waiting requests of one partition in leader epoch ``epoch``. Belongs to the event
    loop."""

    __slots__ = ("_epoch", "_timer", "_waiting")

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._waiting: WaitingForAll[Waiter] | None = None  # most partitions never need one
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return 0 if self._waiting is None else len(self._waiting)

    def add(self, end: int, waiter: Waiter, timeout_ms: int) -> CommitTicket:
        """``waiter`` waits for the records before offset ``end``; REQUEST_TIMED_OUT after
        ``timeout_ms``."""
        if self._waiting is None:
            self._waiting = WaitingForAll(self._epoch)
        ticket = self._waiting.add(waiter, end, _now_ms() + max(0, timeout_ms))
        self._set_timer(self._waiting)
        return ticket

    def forget(self, ticket: CommitTicket) -> None:
        """Its client is gone."""
        if self._waiting is not None:
            self._waiting.forget(ticket)

    def exposed(self, high_watermark: int) -> None:
        """The records below ``high_watermark`` are exposed now."""
        if self._waiting is not None:
            for waiter in self._waiting.committed(self._epoch, high_watermark):
                waiter(None)

    def fail(self, error: KafkaError) -> None:
        """All that wait get the error: the records are not exposed, or not by this broker."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            for waiter in self._waiting.all():
                waiter(error)

    def _set_timer(self, waiting: WaitingForAll[Waiter]) -> None:
        deadline_ms, timer = waiting.next_deadline_ms, self._timer
        if deadline_ms is None:
            return
        if timer is not None:
            if timer.when() * 1000 <= deadline_ms:
                return  # where it finds nothing to do it is set again
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(deadline_ms / 1000, self._time_is_up, waiting)

    def _time_is_up(self, waiting: WaitingForAll[Waiter]) -> None:
        self._timer = None
        for waiter in waiting.expired(_now_ms()):
            waiter(KafkaError(TIME_IS_UP, "the records are appended, and not exposed yet"))
        self._set_timer(waiting)


def _now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)
