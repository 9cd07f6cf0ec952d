"""Asks the coordinator before the first batch of a transaction is appended: carries out
:mod:`tallymark.transactions.verifying` for all partitions of this broker. Belongs to the event
loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from tallymark.broker.partitions.partition import Partition, TransactionCheck
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.verifying import Guard, Turn, Verifications

log = logging.getLogger(__name__)


class InTransaction(NamedTuple):
    """The transaction that a batch says it is of. ``adds``: its request adds the partition itself
    (``transaction.version`` 2); otherwise it must have been added."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    adds: bool


AsksCoordinator: TypeAlias = Callable[[InTransaction, TopicPartition], Awaitable[int]]
"""Returns 0 where the partition is in the open transaction, else the error code. Raises nothing."""
CodeForClient: TypeAlias = Callable[[int], int]
"""The error code in the client's version."""


class Verifier:
    """See the module. ``now_ms`` is a clock."""

    def __init__(self, ask: AsksCoordinator, now_ms: Callable[[], int]) -> None:
        self._ask = ask
        self._now_ms = now_ms
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self,
        partition: Partition,
        transaction: InTransaction,
        sequence: int,
        waiter: Callable[[int], None],
    ) -> None:
        """Call ``waiter`` with 0 when a batch may be appended, at once where it may be now, or with
        the error code. Those of one producer are called in the order of their calls; the append
        still needs :func:`check_of`."""
        _, producer_id, epoch, _ = transaction
        if is_open(partition, producer_id, epoch) and not has_waiting(partition, producer_id):
            return waiter(0)
        verifications = partition.verifications
        if verifications is None:
            verifications = partition.verifications = Verifications()
        turn, guard = verifications.arrives(producer_id, epoch, sequence, waiter, self._now_ms())
        if turn is Turn.APPEND:
            waiter(0)
        elif turn is Turn.REFUSE:
            waiter(CODES["INVALID_PRODUCER_EPOCH"])
        elif turn is Turn.ASK:
            task = asyncio.create_task(self._asked(partition, verifications, guard, transaction))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return None

    async def stop(self) -> None:
        """What waits is refused. Idempotent."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _asked(
        self,
        partition: Partition,
        verifications: Verifications[Callable[[int], None]],
        guard: Guard[Callable[[int], None]],
        transaction: InTransaction,
    ) -> None:
        code = CODES["COORDINATOR_NOT_AVAILABLE"]
        try:
            code = await self._ask(transaction, (partition.topic, partition.index))
        finally:
            code, waited = verifications.answered(guard, code)
            if code:
                log.debug("not in a transaction partition=%s %s: %d", partition, transaction, code)
            for waiter in waited:
                waiter(code)


def is_open(partition: Partition, producer_id: int, epoch: int) -> bool:
    """Whether the log has an open transaction of the producer in this epoch."""
    entry = partition.log.producers.get(producer_id)
    return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch


def has_waiting(partition: Partition, producer_id: int) -> bool:
    """Whether earlier batches of the producer wait for the coordinator."""
    found = partition.verifications
    return found is not None and found.is_asked(producer_id)


def check_of(partition: Partition, code_for_client: CodeForClient) -> TransactionCheck:
    """The check right before the append of a batch of a transaction: a marker may have come since
    it was verified."""

    def check(header: BatchHeader) -> None:
        verifications = partition.verifications
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = partition.log.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return  # the log says so itself
        if entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch:
            return
        code = CODES["TRANSACTION_ABORTABLE"]
        if verifications is not None:
            code = verifications.check(
                producer_id, epoch, header.base_sequence, is_known=entry is not None
            )
        if code:
            raise KafkaError(
                code_for_client(code),
                f"{partition}: producer {producer_id} epoch {epoch}: the batch is in no open "
                "transaction, or comes before another one",
            )

    return check
