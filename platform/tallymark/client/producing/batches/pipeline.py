"""The order of one partition's batches: what may be sent next, and what an answer means. Pure.

A batch waits in ``pending``, travels in ``in_flight`` and leaves either when it is acknowledged or
given up. Rules:

1. Batches are sent in the order in which they were sealed, also when some are sent again: while a
   returned batch waits, nothing new goes out until all that was in flight has come back, and then
   everything goes out in order.
2. Without idempotence one batch is in flight at most; else a retry could overtake.
3. With idempotence a batch carries (producer id, epoch, base sequence) and keeps them as long as
   its partition keeps its identity: the broker knows a repetition by them (KIP-98). It remembers
   the last five batches, so none is sent that is five or more behind the oldest in flight, even
   when those between have been acknowledged.
4. The first batch of an identity, and the first one after anything came back, is alone in flight
   until it is acknowledged: a broker that does not know (any more) a producer id takes any
   sequence, so the second batch must not arrive in place of the first.
5. Of a batch that came back, the log says nothing unless the error comes before an append only
   (:mod:`.append_outcome`). Such a batch is *ambiguous*, whatever later attempts meet, and is sent
   again under the same numbers: acknowledged then, as new or as a repetition, it is there once.
   Given up, it is *in doubt*: its sequences are never used for other records, which a leader that
   has it would take for a repetition. Batches without numbers go out under a new identity.
6. A broker that refuses the *first* batch not yet acknowledged for its sequence or producer id has
   lost what we had acknowledged (its log was cut, its state expired), or never had what we gave up.
   The partition then takes a new identity and numbers its batches from 0. Only this partition does:
   a repetition of another partition's batch must stay recognisable. A *later* batch refused so has
   merely run ahead of a batch that failed, and is sent again behind it.
7. That refusal says of an ambiguous batch that it is not in the log, nor ever will be: what stands
   before it under its identity is acknowledged, so an attempt that is still on its way is refused
   as well. Not so behind a batch in doubt, which may still arrive, with those behind it in its
   wake; nor for a half of a batch that may be there as a whole; nor where the epoch is said to be
   old, since repetitions are not looked for then. There the batch is in doubt as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final

from tallymark.client.producing.batches.append_outcome import may_be_appended
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity, ProducerBatch
from tallymark.errors import CODES, KafkaError, TallymarkError

SEQUENCE_LIMIT: Final = 2**31
"""Sequences are 0 to 2**31 - 1 and begin again at 0."""

_LOST_IDENTITY: Final = frozenset(
    CODES[name]
    for name in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH")
)
_STALE_EPOCH: Final = CODES["INVALID_PRODUCER_EPOCH"]
_TOO_LARGE: Final = frozenset(
    CODES[name] for name in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
)


class Verdict(Enum):
    """What to do with a batch that came back without being acknowledged."""

    RETRY = "retry"
    """It waits to be sent again."""
    FAILED = "failed"
    """Refused for good; it is not in the log."""
    IN_DOUBT = "in doubt"
    """Given up; it may be in the log."""
    SPLIT = "split"
    """Too large; its halves may not be, and wait in its place."""
    OVER = "over"
    """It had expired while it was in flight, and was settled then."""


class Pipeline:
    """The batches of one partition after sealing. Times are monotonic seconds."""

    __slots__ = (
        "_doubted",
        "_next_order",
        "_next_sequence",
        "_proven",
        "_returned",
        "_void",
        "idempotent",
        "identity",
        "in_flight",
        "max_in_flight",
        "needs_identity",
        "pending",
        "retry_at",
        "splits",
    )
    transactional = False
    """Whether its batches are parts of transactions."""

    def __init__(self, idempotent: bool, max_in_flight: int, splits: bool = False) -> None:
        self.idempotent = idempotent
        self.splits = splits
        """Whether what is too large may be sent in halves: then :meth:`replace` follows."""
        self.max_in_flight = max_in_flight if idempotent else 1
        self.pending: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.identity: Identity = NO_IDENTITY
        self.needs_identity = idempotent
        """Whether the next batch without numbers waits for an identity other than the present."""
        self.retry_at = 0.0
        self._next_order = 0
        self._next_sequence = 0
        self._proven = False
        self._returned = False
        self._doubted = False
        """Whether a batch of the present identity was given up in doubt."""
        self._void = False
        """Whether nothing that is pending under the present identity can ever be appended."""

    @property
    def idle(self) -> bool:
        """Whether nothing is pending or in flight."""
        return not self.pending and not self.in_flight

    def unsettled(self) -> list[ProducerBatch]:
        """Every batch without a result, oldest first."""
        return [batch for batch in self.in_flight if not batch.settled] + list(self.pending)

    def add(self, batch: ProducerBatch) -> None:
        """A newly sealed batch."""
        batch.order = self._next_order
        self._next_order += 1
        self.pending.append(batch)

    def next(self, now: float, newest: Identity) -> ProducerBatch | None:
        """The batch that may be sent now, or None. ``newest`` is the producer's newest identity;
        a partition that needs one adopts it here."""
        if not self.pending or now < self.retry_at:
            return None
        if self.in_flight:
            oldest = self.in_flight[0].order  # what is in flight left in order
            alone = self._returned or self.needs_identity or not self._proven
            if alone or self.pending[0].order - oldest >= self.max_in_flight:
                return None
        self._returned = False
        if self.needs_identity and not self._keeps_numbers(self.pending[0]):
            if newest == self.identity:
                return None
            self._adopt(newest)
        return self.pending[0]

    def sent(self, batch: ProducerBatch) -> None:
        """The batch that :meth:`next` gave is about to leave: give it its numbers."""
        assert self.pending[0] is batch
        self.pending.popleft()
        self.in_flight.append(batch)
        if self.idempotent and batch.identity != self.identity:
            batch.identity = self.identity
            batch.base_sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + batch.count) % SEQUENCE_LIMIT

    def unsent(self, batch: ProducerBatch) -> None:
        """The batch did not leave after all (no connection): back to its place."""
        self.in_flight.remove(batch)
        self._put_back(batch)

    def acknowledged(self, batch: ProducerBatch) -> None:
        """The batch is in the log."""
        self.in_flight.remove(batch)
        if batch.identity == self.identity:
            self._proven = True

    def refused(self, batch: ProducerBatch, error: TallymarkError, retry_at: float) -> Verdict:
        """The batch came back with ``error``: put it back to be sent again from ``retry_at`` on,
        or say that it is given up."""
        code = error.code if isinstance(error, KafkaError) else None
        self.in_flight.remove(batch)
        batch.ambiguous = batch.ambiguous or may_be_appended(error)
        if batch.settled:  # expired while it was in flight; what follows it must still line up
            self._returned = self._returned or bool(self.in_flight)
            return Verdict.OVER
        if self.idempotent and code in _LOST_IDENTITY:
            retry = not self._is_first(batch) or self._lose_identity(batch, code)
        else:
            retry = isinstance(error, KafkaError) and error.retriable
        if retry:
            self.retry_at = max(self.retry_at, retry_at)
            self._put_back(batch)
            return Verdict.RETRY
        if self.splits and code in _TOO_LARGE and batch.count > 1:
            return Verdict.SPLIT
        self._give_up(batch)
        return Verdict.IN_DOUBT if batch.ambiguous else Verdict.FAILED

    def replace(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """Put ``parts`` where ``batch`` was, which came back to be split. They share out its
        sequences, so what was sent behind it still fits behind them; and where the whole is in the
        log all the same, they are refused."""
        for later in (*self.in_flight, *self.pending):
            if later.order > batch.order:
                later.order += len(parts) - 1
        self._next_order += len(parts) - 1
        sequence = batch.base_sequence
        for place, part in enumerate(parts):
            part.order = batch.order + place
            part.identity = batch.identity
            part.ambiguous = part.part_of_ambiguous = batch.ambiguous
            if sequence >= 0:
                part.base_sequence = sequence
                sequence = (sequence + part.count) % SEQUENCE_LIMIT
            self._put_back(part)

    def expired(self, now: float) -> list[ProducerBatch]:
        """Take out the batches whose deadline has passed. One that is in flight stays listed,
        marked as settled, until its answer comes; its bytes have left, so it is ambiguous."""
        late = [b for b in self.in_flight if not b.settled and b.deadline <= now]
        for batch in late:
            batch.ambiguous = True
            self._give_up(batch)
        while self.pending and self.pending[0].deadline <= now:
            batch = self.pending.popleft()
            self._give_up(batch)
            late.append(batch)
        return late

    def abandon(self) -> list[ProducerBatch]:
        """Take out every batch without a result."""
        batches = self.unsettled()
        for batch in self.in_flight:
            batch.ambiguous = True
        self.pending.clear()
        for batch in reversed(batches):  # the last numbers are given back first
            self._give_up(batch)
        return batches

    def next_deadline(self) -> float | None:
        """When the next batch expires."""
        open_ones = self.unsettled()
        return min(batch.deadline for batch in open_ones) if open_ones else None

    def _is_first(self, batch: ProducerBatch) -> bool:
        """Whether no earlier batch of the partition still waits for its acknowledgement."""
        before = [b for b in (*self.in_flight, *self.pending) if b.order < batch.order]
        return not before

    def _put_back(self, batch: ProducerBatch) -> None:
        """Into ``pending``, in order: what came back goes before what was never sent."""
        behind = 0
        while behind < len(self.pending) and self.pending[behind].order < batch.order:
            behind += 1
        self.pending.insert(behind, batch)
        self._returned = True
        self._proven = False

    def _keeps_numbers(self, batch: ProducerBatch) -> bool:
        """Whether it goes out under numbers of the present identity that it has already."""
        return batch.base_sequence >= 0 and batch.identity == self.identity and not self._void

    def _lose_identity(self, batch: ProducerBatch, code: int | None) -> bool:
        """The first batch was refused for its sequence or producer id: a new identity is needed.
        Whether the batch may be sent again under that one: it surely is not in the log."""
        self.needs_identity = True
        if batch.ambiguous and (self._doubted or batch.part_of_ambiguous or code == _STALE_EPOCH):
            return False
        batch.ambiguous = False
        self._void = True
        return True

    def _adopt(self, identity: Identity) -> None:
        if self._void:  # the first one is not there, so none of those behind it is
            for batch in self.pending:
                batch.ambiguous = batch.part_of_ambiguous = False
        self.identity = identity
        self.needs_identity = self._doubted = self._void = False
        self._next_sequence = 0
        self._proven = False

    def _give_up(self, batch: ProducerBatch) -> None:
        """See to the numbers of a batch that is given up. One that certainly is not in the log
        gives them back, if none came after; those of another one are never used again."""
        if batch.base_sequence < 0 or batch.identity != self.identity:
            return
        if batch.ambiguous:
            self._doubted = self.needs_identity = True
        elif (batch.base_sequence + batch.count) % SEQUENCE_LIMIT == self._next_sequence:
            self._next_sequence = batch.base_sequence
