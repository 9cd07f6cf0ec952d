"""The calls of a transactional producer, for threads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.batch_delivery import BatchDelivery
from tallymark.client.producing.core import ProducerCore
from tallymark.client.producing.delivery import Delivery, OnDelivery
from tallymark.client.producing.interceptors.queue_interceptor import OutgoingRecord
from tallymark.client.producing.record_appender import RecordAppender
from tallymark.client.producing.transactions.manager import TransactionManager
from tallymark.errors import CommitInDoubt, LocalProtocolError, TallymarkError
from tallymark.protocol.records.batch import Header

log: Final = logging.getLogger(__name__)


def manager_of(core: ProducerCore) -> TransactionManager:
    """LocalProtocolError for a producer without a transactional id."""
    if core.transactions is None:
        raise LocalProtocolError("the producer has no transactional_id, so it has no transactions")
    return core.transactions


def as_group(group: str | GroupMetadata) -> GroupMetadata:
    """A group by its name alone is one whose members are not checked."""
    return GroupMetadata(group) if isinstance(group, str) else group


class TransactionalAppender(RecordAppender):
    """Takes records in while a transaction is open."""

    def send(self, record: OutgoingRecord, on_delivery: OnDelivery | None = None) -> Delivery:
        with manager_of(self.core).sending("send()"):
            return super().send(record, on_delivery)

    def send_many(
        self,
        topic: str,
        values: Any,
        keys: Any,
        partition: int | None,
        timestamps: Any,
        headers: Iterable[Header],
    ) -> BatchDelivery:
        with manager_of(self.core).sending("send_many()"):
            return super().send_many(topic, values, keys, partition, timestamps, headers)


class TransactionCalls:
    """The part of a :class:`~tallymark.client.producing.producer.Producer` for transactions.

    Every call raises LocalProtocolError where it does not fit what was called before, and

    * TimedOutError: call it again;
    * TransactionAbortableError: call abort_transaction(), then begin another one;
    * TransactionFatalError: another producer has the id, or it may not be used: close;
    * CommitInDoubt (commit_transaction() only): committed or not, call it again to know.

    ``timeout`` in seconds; by default ``max_block_ms``.
    """

    if TYPE_CHECKING:

        def _ready(self, call: str) -> RecordAppender: ...

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take the transactional id, fence the last producer that had it, and abort its open
        transaction. Once, before anything else."""
        core = self._ready("init_transactions()").core
        core.io.run(
            manager_of(core).initialise(call_seconds(core, timeout)), what="init_transactions()"
        )

    def begin_transaction(self) -> None:
        """Begin a transaction. Waits for the cluster only where the one before ended unclearly."""
        core = self._ready("begin_transaction()").core
        core.io.run(manager_of(core).begin(call_seconds(core, None)), what="begin_transaction()")

    def send_offsets_to_transaction(
        self,
        positions: Mapping[tuple[str, int], int],
        group: str | GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Have ``positions`` of ``group`` committed with the transaction: (topic, partition) to
        the next offset to read, not the last one read."""
        core = self._ready("send_offsets_to_transaction()").core
        work = manager_of(core).send_offsets(
            dict(positions), as_group(group), call_seconds(core, timeout)
        )
        core.io.run(work, what="send_offsets_to_transaction()")

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver everything and commit. Returns when it is decided."""
        core = self._ready("commit_transaction()").core
        core.io.run(
            manager_of(core).commit(call_seconds(core, timeout)), what="commit_transaction()"
        )

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort. Records that have not left are dropped, and their Delivery says so."""
        core = self._ready("abort_transaction()").core
        core.io.run(manager_of(core).abort(call_seconds(core, timeout)), what="abort_transaction()")

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with producer.transaction():`` begins one, commits it, and aborts it on an exception,
        which goes on. After CommitInDoubt nothing is aborted: call commit_transaction()."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except CommitInDoubt:
            raise
        except BaseException:
            try:
                self.abort_transaction()
            except TallymarkError as error:  # the first error is the one to be seen
                log.error("the transaction was not aborted: %s", error)
            raise


def call_seconds(core: ProducerCore, timeout: float | None) -> float:
    """How long a call may take."""
    return core.settings.max_block_ms / 1000 if timeout is None else timeout
