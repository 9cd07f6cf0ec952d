"""Requests with acks=all that wait until the maximal ISR has their records.

One object for each partition and leader epoch. A request waits as an entry of two heaps, by offset
and by deadline; no task and no timer is made for it. It ends in one of four ways:

=================================  ==================================================
the high watermark has its offset  NONE
the lead is lost                   NOT_LEADER_OR_FOLLOWER
too few are in sync now            NOT_ENOUGH_REPLICAS_AFTER_APPEND
its time is up                     REQUEST_TIMED_OUT
=================================  ==================================================

After each of the last three the records may be in the log all the same, and may be committed later:
the producer does not know (docs/architecture.md).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

from tallymark.errors import CODES

NONE: Final = CODES["NONE"]
LEAD_LOST: Final = CODES["NOT_LEADER_OR_FOLLOWER"]
TOO_FEW: Final = CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
TIME_IS_UP: Final = CODES["REQUEST_TIMED_OUT"]

Request = TypeVar("Request")


class Ticket(Generic[Request]):
    """A request that waits until the high watermark is at ``end``, at most until ``deadline_ms``.
    ``is_over``: it was answered, or its client is gone."""

    __slots__ = ("deadline_ms", "end", "is_over", "number", "request")

    def __init__(self, request: Request, end: int, deadline_ms: int, number: int) -> None:
        self.request = request
        self.end = end
        self.deadline_ms = deadline_ms
        self.number = number
        self.is_over = False


class WaitingForAll(Generic[Request]):
    """The waiting requests of one partition in leader epoch ``epoch``. Each is returned once, by
    the method that ends it; the caller answers it."""

    __slots__ = ("_by_deadline", "_by_end", "_count", "_number", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._by_end: list[tuple[int, int, Ticket[Request]]] = []
        self._by_deadline: list[tuple[int, int, Ticket[Request]]] = []
        self._number = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next_deadline_ms(self) -> int | None:
        """When :meth:`expired` has something to do; None if nothing waits."""
        while self._by_deadline and self._by_deadline[0][2].is_over:
            heappop(self._by_deadline)
        return self._by_deadline[0][0] if self._by_deadline else None

    def add(self, request: Request, end: int, deadline_ms: int) -> Ticket[Request]:
        """``request`` waits for the records before offset ``end``."""
        self._number += 1
        self._count += 1
        ticket = Ticket(request, end, deadline_ms, self._number)
        heappush(self._by_end, (end, self._number, ticket))
        heappush(self._by_deadline, (deadline_ms, self._number, ticket))
        return ticket

    def forget(self, ticket: Ticket[Request]) -> None:
        """The client is gone: nothing is to be answered."""
        self._end(ticket)

    def committed(self, epoch: int, high_watermark: int) -> list[Request]:
        """The requests that are answered without error, in the order of their offsets. A high
        watermark of another leader epoch commits nothing of this one: the same offsets may hold
        other records there (KAFKA-20634)."""
        released: list[Request] = []
        if epoch != self.epoch:
            return released
        waiting = self._by_end
        while waiting and waiting[0][0] <= high_watermark:
            ticket = heappop(waiting)[2]
            if self._end(ticket):
                released.append(ticket.request)
        return released

    def expired(self, now_ms: int) -> list[Request]:
        """The requests whose time is up."""
        late: list[Request] = []
        while (deadline := self.next_deadline_ms) is not None and deadline <= now_ms:
            ticket = heappop(self._by_deadline)[2]
            if self._end(ticket):
                late.append(ticket.request)
        self._drop_ended()
        return late

    def all(self) -> list[Request]:
        """End all that wait: the lead is lost, or too few are in sync."""
        tickets = [entry[2] for entry in sorted(self._by_end, key=lambda entry: entry[:2])]
        self._by_end.clear()
        self._by_deadline.clear()
        return [ticket.request for ticket in tickets if self._end(ticket)]

    def _end(self, ticket: Ticket[Request]) -> bool:
        if ticket.is_over:
            return False
        ticket.is_over = True
        self._count -= 1
        if not self._count:
            self._by_end.clear()
            self._by_deadline.clear()
        return True

    def _drop_ended(self) -> None:
        """Entries of requests that ended otherwise would stay as long as the one before them."""
        while self._by_end and self._by_end[0][2].is_over:
            heappop(self._by_end)
