"""The transactional ids in one partition of ``__transaction_state``: decides, appends, replays.

::

    request ─▶ decide ─▶ append, replay ─▶ committed: the answer leaves
                              │
                              └─ the outcome is decided ─▶ committed: markers are sent
                                                                │ all partitions have them
                                            append, replay ◀────┘ complete

*Prepare is the decision once it is committed*: no marker leaves before, and after it nothing can
change. A decision whose record is not committed in time stands: its client gets an error that it
repeats, and CONCURRENT_TRANSACTIONS until the record is committed or the lead is lost (KAFKA-9666).
A new leader finds Prepare in its log, waits until that is committed, and sends the markers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from tallymark.broker.coordinators.refusals import refusal_of
from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.settled import Settled
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.broker.yielding import in_turns
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.adding import decide_add, verify
from tallymark.transactions.ending import decide_abort, decide_completed, decide_end
from tallymark.transactions.initialising import decide_initialise
from tallymark.transactions.inputs import CONCURRENT, Add, Decision, End, Initialise, refused
from tallymark.transactions.markers import Outcome
from tallymark.transactions.state import TransactionsState, record_of, tombstone
from tallymark.transactions.transaction import NAMES, PREPARED, Transaction

log: Final = logging.getLogger(__name__)

A = TypeVar("A")
Decide: TypeAlias = Callable[[Transaction | None, bool, int], Decision]
"""(what is stored, whether its last record is not committed yet, now in ms UTC) -> decision."""

NO_ANSWER: Final = 1
"""``acks`` for what the coordinator decides by itself: no client waits for it."""
AGAIN_SECONDS: Final = 0.5
"""Pause before something that the coordinator does by itself is tried again."""
_IDS_A_TURN: Final = 500


class SendsMarkers(Protocol):
    """Writes the markers of outcomes: :class:`~tallymark.broker.transactions.sending.MarkerSender`
    is one."""

    def begin(self, outcome: Outcome, completed: Callable[[Outcome], None]) -> None:
        """``completed`` is called on the loop when all partitions have the marker."""
        ...

    def drop(self, outcomes: Iterable[Outcome]) -> None:
        """These are another coordinator's from now on."""
        ...


class TransactionShard:
    """Transactional ids, in one leader epoch. Belongs to the event loop. ``now_ms``: the wall
    clock. Requests are answered with a :class:`~tallymark.transactions.inputs.Decision`, of which
    the error and the producer's id and epoch are the answer."""

    def __init__(
        self,
        replayed: ReplayedState[TransactionsState],
        sender: SendsMarkers,
        now_ms: Callable[[], int],
    ) -> None:
        self._replayed = replayed
        self._sender = sender
        self._now_ms = now_ms
        self._at_election = replayed.end
        self._ends: dict[str, int] = {}
        """The offset after the last record of an id, where that was not committed when it was
        looked at."""
        self._sent: dict[str, Outcome] = {}
        """The outcomes whose markers are under way."""

    @property
    def partition(self) -> Partition:
        """The partition of ``__transaction_state``."""
        return self._replayed.partition

    @property
    def state(self) -> TransactionsState:
        """What is stored; only replay changes it."""
        return self._replayed.state

    @property
    def closed(self) -> bool:
        """Whether another broker coordinates these ids now."""
        return self._replayed.closed

    async def take_over(self) -> None:
        """Send the markers of what was decided, as soon as that is committed."""
        async for transaction in in_turns(self.state.busy, _IDS_A_TURN):
            if transaction.state in PREPARED:
                self._send_when_committed(transaction)

    def close(self) -> None:
        """Another broker coordinates these ids now."""
        self._replayed.close()
        self._sender.drop(self._sent.values())
        self._sent.clear()

    # --- requests

    def initialise(self, request: Initialise, new_producer_id: int) -> Settled[Decision]:
        """InitProducerId. The decision says where a new producer id is needed: ask again with
        one."""

        def decide(stored: Transaction | None, pending: bool, now: int) -> Decision:
            return decide_initialise(
                stored, request, pending=pending, new_producer_id=new_producer_id, now_ms=now
            )

        return self._answered(request.transactional_id, decide)

    def add(self, transactional_id: str, request: Add) -> Settled[Decision]:
        """AddPartitionsToTxn, AddOffsetsToTxn."""

        def decide(stored: Transaction | None, pending: bool, now: int) -> Decision:
            return decide_add(stored, request, pending=pending, now_ms=now)

        return self._answered(transactional_id, decide)

    def end(self, transactional_id: str, request: End, new_producer_id: int) -> Settled[Decision]:
        """EndTxn; as :meth:`initialise`."""

        def decide(stored: Transaction | None, pending: bool, now: int) -> Decision:
            return decide_end(
                stored, request, pending=pending, new_producer_id=new_producer_id, now_ms=now
            )

        return self._answered(transactional_id, decide)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, asked: Iterable[TopicPartition]
    ) -> Settled[Mapping[TopicPartition, int]]:
        """An error code for each partition, 0 where it is in the open transaction."""
        partitions = tuple(asked)
        codes = verify(self.state.get(transactional_id), producer_id, epoch, partitions)
        return self.settled(codes, lambda code: dict.fromkeys(partitions, code))

    def settled(self, answer: A, refuse: Callable[[int], A]) -> Settled[A]:
        """See :meth:`~tallymark.broker.coordinators.replayed.ReplayedState.settled`."""
        return self._replayed.settled(answer, refuse)

    # --- by the coordinator itself

    def abort_overdue(self, found: Transaction) -> bool:
        """Abort ``found``, which fences its producer; returns whether that was decided. Not where
        it has changed since."""

        def decide(stored: Transaction | None, pending: bool, now: int) -> Decision:
            if stored is None:
                return Decision()
            return decide_abort(stored, found.producer_epoch, pending=pending, now_ms=now)

        decision = self._decided(found.transactional_id, decide, NO_ANSWER)
        if decision.after is not None:
            log.warning(
                "transaction aborted after its timeout transactional_id=%.249r producer_id=%d "
                "epoch=%d timeout_ms=%d partitions=%d",
                found.transactional_id,
                found.producer_id,
                found.producer_epoch,
                found.timeout_ms,
                len(found.partitions),
            )
        return decision.after is not None

    def forget(self, found: Iterable[Transaction]) -> int:
        """Forget ids that were not used for long; returns how many. Not those that have changed
        since, or whose last record is not committed. Raises KafkaError where nothing could be
        appended."""
        gone = [
            each.transactional_id
            for each in found
            if self.state.get(each.transactional_id) == each
            and not self._is_pending(each.transactional_id)
        ]
        if gone:
            records = [tombstone(each) for each in gone]
            self._replayed.append(records, self._now_ms(), acks=NO_ANSWER)
        for each in gone:
            self._ends.pop(each, None)
        return len(gone)

    # --- the turn

    def _answered(self, transactional_id: str, decide: Decide) -> Settled[Decision]:
        decision = self._decided(transactional_id, decide, ACKS_ALL)
        if decision.needs_producer_id:
            return decision
        if decision.after is None and decision.error == CONCURRENT:
            return decision  # "not yet" tells nothing that may be lost, and the client asks again
        return self._replayed.settled(decision, refused)

    def _decided(self, transactional_id: str, decide: Decide, acks: int) -> Decision:
        """Decide, append, replay. Where nothing can be appended nothing has changed, and the
        decision is the error."""
        now = self._now_ms()
        decision = decide(self.state.get(transactional_id), self._is_pending(transactional_id), now)
        if decision.after is None:
            return decision
        try:
            self._append(decision.after, now, acks)
        except KafkaError as error:
            level = logging.INFO if self._replayed.is_over else logging.ERROR
            log.log(level, "transactional_id=%.249r: not stored: %s", transactional_id, error)
            return refused(refusal_of(error))
        return decision

    def _append(self, after: Transaction, now: int, acks: int) -> None:
        self._replayed.append([record_of(after)], now, acks=acks)
        self._ends[after.transactional_id] = self._replayed.end
        log.debug(
            "transaction %s transactional_id=%.249r producer_id=%d epoch=%d partitions=%d",
            NAMES[after.state],
            after.transactional_id,
            after.producer_id,
            after.producer_epoch,
            len(after.partitions),
        )
        if after.state in PREPARED:
            self._send_when_committed(after)

    def _is_pending(self, transactional_id: str) -> bool:
        """Whether the last record of the id is not committed. What was there at the election is
        until all of it is."""
        end = self._ends.get(transactional_id, self._at_election)
        if end > self.partition.high_watermark:
            return True
        self._ends.pop(transactional_id, None)
        return False

    # --- markers

    def _send_when_committed(self, decided: Transaction) -> None:
        def settled(code: int) -> None:
            if self._replayed.is_over:
                return  # the next coordinator finds the decision in its log, if it was committed
            if code:
                self._later(lambda: self._send_when_committed(decided))
                return
            outcome = _outcome(decided, self._replayed.epoch)
            self._sent[outcome.transactional_id] = outcome
            self._sender.begin(outcome, self._completed)

        self._replayed.when_settled(settled)

    def _completed(self, outcome: Outcome) -> None:
        """All partitions have the marker."""
        name = outcome.transactional_id
        if self._sent.get(name) is not outcome or self._replayed.is_over:
            return
        now, stored = self._now_ms(), self.state.get(name)
        decision = (
            Decision() if stored is None else decide_completed(stored, outcome.producer_epoch, now)
        )
        try:
            if decision.after is not None:
                self._append(decision.after, now, NO_ANSWER)
        except KafkaError as error:
            log.error("transactional_id=%.249r: its end is not stored yet: %s", name, error)
            self._later(lambda: self._completed(outcome))
            return
        del self._sent[name]

    def _later(self, do: Callable[[], None]) -> None:
        def unless_over() -> None:
            if not self._replayed.is_over:
                do()

        asyncio.get_running_loop().call_later(AGAIN_SECONDS, unless_over)


def _outcome(decided: Transaction, coordinator_epoch: int) -> Outcome:
    return Outcome(
        decided.transactional_id,
        decided.producer_id,
        decided.producer_epoch,
        decided.commits,
        coordinator_epoch,
        decided.version,
        decided.partitions,
    )
