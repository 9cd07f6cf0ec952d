"""A partition asks the coordinator before it writes the first batch of a transaction (KIP-890).

Otherwise a batch that arrives late begins a transaction of which no coordinator knows, and readers
of committed records stop there for ever. Pure, for one partition.

::

    first batch ──▶ asked ──── no ──▶ refused; the lowest sequence is remembered
    next batches     │ they wait
                     yes ──▶ all are appended, in their order ──▶ the transaction is open in the log
                      ▲
                      └── a marker, or a newer epoch, takes the guard away: a yes from before it is
                          worth nothing: what waits is to be sent again, or refused

The lowest sequence: of two batches under way the first may be refused for a moment and the second
asked again alone. To a log that does not know the producer the second looks like a beginning; the
first would be lost, or follow it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from tallymark.errors import CODES

W = TypeVar("W")

ABORTABLE: Final = CODES["TRANSACTION_ABORTABLE"]
CONCURRENT: Final = CODES["CONCURRENT_TRANSACTIONS"]
REMEMBERED_MS: Final = 15 * 60 * 1000
"""A guard is kept so long when nothing follows (Kafka's ``transaction.max.timeout.ms``)."""

_AGAIN: Final = frozenset(
    CODES[name]
    for name in (
        "NETWORK_EXCEPTION",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
)


class Turn(Enum):
    """What to do with a batch that arrives."""

    ASK = "ask the coordinator"
    WAIT = "the coordinator is being asked"
    APPEND = "it has said yes"
    REFUSE = "a newer epoch of the producer is there"


@dataclass(slots=True, eq=False)
class Guard(Generic[W]):
    """One producer in one epoch. ``lowest``: the lowest sequence that was tried."""

    producer_id: int
    epoch: int
    lowest: int
    since_ms: int
    is_asked: bool = False
    is_verified: bool = False
    waiting: deque[W] = field(default_factory=deque[W])


class Verifications(Generic[W]):
    """The producers of one partition that begin a transaction. ``W``: what waits."""

    def __init__(self) -> None:
        self._guards: dict[int, Guard[W]] = {}  # the oldest one is first

    def __len__(self) -> int:
        return len(self._guards)

    def arrives(
        self, producer_id: int, epoch: int, sequence: int, waiter: W, now_ms: int
    ) -> tuple[Turn, Guard[W]]:
        """A batch of a transaction that is not open in the log. With ASK and WAIT ``waiter`` is
        kept, until :meth:`answered`."""
        guard = self._guards.get(producer_id)
        if guard is None or epoch > guard.epoch:
            guard = self._begin(producer_id, epoch, sequence, now_ms)
        elif epoch < guard.epoch:
            return Turn.REFUSE, guard
        guard.lowest = min(guard.lowest, sequence)
        if guard.is_verified:
            return Turn.APPEND, guard
        guard.waiting.append(waiter)
        if guard.is_asked:
            return Turn.WAIT, guard
        guard.is_asked = True
        return Turn.ASK, guard

    def answered(self, guard: Guard[W], code: int) -> tuple[int, list[W]]:
        """The coordinator's answer: the code for all that waited, in their order.

        CONCURRENT_TRANSACTIONS where a marker came meanwhile: with ``transaction.version`` 2 it may
        be that of the transaction before, whose end the next one's first batch need not wait for.
        The yes may be of either; the batch is sent again, and asked about again."""
        guard.is_asked = False
        waited = list(guard.waiting)
        guard.waiting.clear()
        now = self._guards.get(guard.producer_id)
        if now is not guard:
            overtaken = now is not None and now.epoch > guard.epoch
            return code or (ABORTABLE if overtaken else CONCURRENT), waited
        guard.is_verified = not code
        return code, waited

    def marker(self, producer_id: int) -> None:
        """A transaction of the producer has ended."""
        self._guards.pop(producer_id, None)

    def is_asked(self, producer_id: int) -> bool:
        """Whether batches of the producer wait for the coordinator."""
        guard = self._guards.get(producer_id)
        return guard is not None and guard.is_asked

    def check(self, producer_id: int, epoch: int, sequence: int, *, is_known: bool) -> int:
        """Right before the write of a batch that begins a transaction in the log, which may come
        long after the answer: 0, TRANSACTION_ABORTABLE, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        ``is_known``: the log knows the producer's sequences."""
        guard = self._guards.get(producer_id)
        if guard is None or guard.epoch != epoch or not guard.is_verified:
            return ABORTABLE
        if not is_known and sequence > guard.lowest:
            return CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
        return 0

    def _begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> Guard[W]:
        self._guards.pop(producer_id, None)
        while self._guards:
            oldest = next(iter(self._guards.values()))
            if oldest.is_asked or now_ms - oldest.since_ms < REMEMBERED_MS:
                break
            del self._guards[oldest.producer_id]
        guard = self._guards[producer_id] = Guard[W](producer_id, epoch, sequence, now_ms)
        return guard


def code_for_client(code: int, *, knows_abortable: bool, adds: bool) -> int:
    """The error of a Produce, or of offsets in a transaction, for what the coordinator or
    :meth:`Verifications.check` has said. ``adds``: the request adds its partitions itself, so the
    client repeats CONCURRENT_TRANSACTIONS; older ones do at NOT_ENOUGH_REPLICAS, and do not look
    for another leader then. ``knows_abortable``: TRANSACTION_ABORTABLE; older ones get
    INVALID_TXN_STATE.
    """
    if code == CODES["PRODUCER_FENCED"]:
        return CODES["INVALID_PRODUCER_EPOCH"]
    if code == ABORTABLE and not knows_abortable:
        return CODES["INVALID_TXN_STATE"]
    if code in _AGAIN or (code == CONCURRENT and not adds):
        return CODES["NOT_ENOUGH_REPLICAS"]
    return code
