"""A coordinator's state in one leader epoch of its partition: when may an answer leave?

decide (pure) → append to the log → replay at once in memory → answer. The log is the truth, and
nothing that was appended is taken back: a decision that is not committed in time is not undone, its
answer is "not yet" (KAFKA-9666).

*Every* answer, those of reads and heartbeats too, was decided from what memory held, and that may
be records that no follower has yet. A leader without them would follow, and a member had got a
generation that never was, a consumer an offset that was never committed. So an answer
leaves when the high watermark has reached the end of what was replayed here, in this epoch::

    high watermark             end                 an answer decided now waits until
    |  all replicas have this  |  replayed here    the high watermark is here: end
                               ^ at first: the end of the log at the election

The end and the high watermark are facts of one leader epoch (a
:class:`~tallymark.broker.partitions.partition.Partition` is one): after a loss of the lead the log
may be cut and filled with other records, and a high watermark that passes these offsets then says
nothing about the records that were here (KAFKA-20634).

With one replica the end of the log is the high watermark, and with ``flush.before.expose`` a flush
moves it; the rule is the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from tallymark.broker.coordinators.refusals import NOT_AVAILABLE, NOT_COORDINATOR, refusal_of
from tallymark.broker.coordinators.settled import Settled
from tallymark.broker.coordinators.state_log import (
    Replays,
    ReplaysTransactions,
    StateRecord,
    TransactionOf,
    append_batch,
    batches_of,
)
from tallymark.broker.metrics.counters import CoordinatorMetrics
from tallymark.broker.partitions.commit_waits import CommitTicket
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.errors import CODES, KafkaError
from tallymark.net.limits.log_rate import LogRate
from tallymark.protocol.records.markers import Marker

log = logging.getLogger(__name__)

A = TypeVar("A")
S = TypeVar("S", bound=Replays)

ANSWER_MS: Final = 5_000
"""How long an answer waits (Kafka's default of ``offsets.commit.timeout.ms``)."""

Deliver = Callable[[int], None]
"""Called once: 0 when the answer may leave, else the error code to answer with. Must return at
once, and raise nothing."""


class ReplayedState(Generic[S]):
    """The state of one partition in leader epoch ``epoch``. ``state`` is all of its log, replayed.
    Belongs to the event loop; make it before anything is appended in this epoch."""

    __slots__ = ("_held", "_late", "_metrics", "closed", "end", "epoch", "partition", "state")

    def __init__(
        self, partition: Partition, state: S, metrics: CoordinatorMetrics | None = None
    ) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.state = state
        self.end = partition.log.end_offset
        """The offset after the last record in ``state``. Not the log's end as it is now: after a
        loss of the lead that is another leader's."""
        self.closed = False
        """The lead is lost: nothing is decided here any more."""
        self._held: set[_Held] = set()
        self._metrics = metrics or CoordinatorMetrics()
        self._late = LogRate(clock=asyncio.get_running_loop().time)

    def append(
        self,
        records: Sequence[StateRecord],
        wall_ms: int,
        *,
        acks: int = ACKS_ALL,
        transaction: TransactionOf | None = None,
    ) -> None:
        """Append and replay. ``acks`` 1: no client waits for the record, so it is appended
        even while fewer replicas than ``min.insync.replicas`` are in sync.

        Raises KafkaError: NOT_COORDINATOR where the lead is lost, NOT_ENOUGH_REPLICAS, and what the
        log raises. :func:`~tallymark.broker.coordinators.refusals.refusal_of` is the code for a
        client.
        """
        if self.is_over:
            raise KafkaError(NOT_COORDINATOR, f"{self.partition}: the lead is lost")
        for batch in batches_of(records):
            self.end = append_batch(self.partition, self.state, batch, wall_ms, acks, transaction)

    def end_transaction(
        self, producer_id: int, epoch: int, marker: Marker, wall_ms: int, version: int
    ) -> int:
        """Append the marker, and what it decides is in force in :attr:`state`. As
        :meth:`~tallymark.broker.partitions.partition.Partition.append_marker`; NOT_COORDINATOR
        where the lead is lost."""
        if self.is_over:
            raise KafkaError(NOT_COORDINATOR, f"{self.partition}: the lead is lost")
        offset = self.partition.append_marker(producer_id, epoch, marker, wall_ms, version)
        if isinstance(self.state, ReplaysTransactions):
            self.state.end_transaction(producer_id, commit=marker.commit)
        self.end = max(self.end, offset + 1)
        return offset

    @property
    def is_over(self) -> bool:
        """The lead is lost; :meth:`close` may not have been called yet."""
        return self.closed or self.partition.is_withdrawn

    @property
    def is_settled(self) -> bool:
        """Whether an answer that is decided now may leave at once. The coordinator asks this first:
        with one replica it is so."""
        partition = self.partition
        return self.end <= partition.high_watermark and not self.is_over

    def settled(self, answer: A, refuse: Callable[[int], A]) -> Settled[A]:
        """``answer``, which was decided from the state as it is now, when it may leave; or what
        ``refuse`` makes of an error code: NOT_COORDINATOR when the lead is lost,
        COORDINATOR_NOT_AVAILABLE when it is not committed within :data:`ANSWER_MS`."""
        if self.is_settled:
            return answer
        if self.is_over:
            return refuse(NOT_COORDINATOR)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()

        def deliver(code: int) -> None:
            if not future.done():
                future.set_result(refuse(code) if code else answer)

        held = self._hold(deliver)
        future.add_done_callback(
            lambda done: self.release(held, NOT_AVAILABLE) if done.cancelled() else None
        )
        return future

    def when_settled(self, deliver: Deliver) -> None:
        """:meth:`settled` for an answer that is parked already."""
        if self.is_settled:
            deliver(0)
        elif self.is_over:
            deliver(NOT_COORDINATOR)
        else:
            self._hold(deliver)

    def _hold(self, deliver: Deliver) -> _Held:
        held = _Held(self, deliver)
        self._held.add(held)
        held.ticket = self.partition.when_exposed(self.end - 1, held, ANSWER_MS)
        if held.ticket is None:
            self.release(held, 0)
        return held

    def committed(self, held: _Held, error: KafkaError | None) -> None:
        """The waiter of the partition: what ``held`` waits for is committed, or not in time."""
        if error is not None and error.code == CODES["REQUEST_TIMED_OUT"]:
            self._log_late()
        self.release(held, 0 if error is None else refusal_of(error))

    def release(self, held: _Held, code: int) -> None:
        """Answer, once: a later outcome of an answer that has left is ignored."""
        if held in self._held:
            self._held.discard(held)
            if held.ticket is not None:
                self.partition.forget(held.ticket)
            self._metrics.answered(asyncio.get_running_loop().time() - held.since, code)
            held.deliver(code)

    def _log_late(self) -> None:
        missed = self._late.passes("")
        if missed is not None:
            log.warning(
                "answers of the coordinator are late: its records are not committed partition=%s "
                "epoch=%d high_watermark=%d end=%d answers=%d",
                self.partition,
                self.epoch,
                self.partition.high_watermark,
                self.end,
                missed + 1,
            )

    @property
    def held(self) -> int:
        """How many answers wait for the high watermark."""
        return len(self._held)

    def close(self) -> None:
        """The lead is lost: all answers that wait are NOT_COORDINATOR, and what the high watermark
        of a later epoch passes has no effect here."""
        self.closed = True
        for held in tuple(self._held):
            self.release(held, NOT_COORDINATOR)


class _Held:
    """One answer that waits."""

    __slots__ = ("_shard", "deliver", "since", "ticket")

    def __init__(self, shard: ReplayedState[Any], deliver: Deliver) -> None:
        self._shard = shard
        self.deliver = deliver
        self.since = asyncio.get_running_loop().time()
        self.ticket: CommitTicket | None = None

    def __call__(self, error: KafkaError | None) -> None:
        """What it waits for is committed, or not in time."""
        self._shard.committed(self, error)
