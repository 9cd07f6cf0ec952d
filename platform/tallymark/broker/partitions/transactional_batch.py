"""One batch of a transaction on its way into the log."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tallymark.broker.partitions.partition import Partition, TransactionCheck
from tallymark.broker.partitions.verifier import CodeForClient, InTransaction, Verifier
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.results import AppendInfo
from tallymark.protocol.records.batch import read_header
from tallymark.protocol.schema import Buffer


class TransactionalBatch(NamedTuple):
    """What :meth:`~tallymark.broker.partitions.partition.Partition.append` needs for it."""

    partition: Partition
    records: Buffer
    now_ms: int
    acks: int
    check: TransactionCheck

    def append(
        self, verifier: Verifier, transactional_id: str, code_of: CodeForClient, *, adds: bool
    ) -> AppendInfo | asyncio.Future[AppendInfo | KafkaError]:
        """Append it when it may be; the result, or the future of it. Raises KafkaError as
        :meth:`~tallymark.broker.partitions.partition.Partition.append`."""
        try:
            header = read_header(self.records)
        except CorruptRecordError as error:
            raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{self.partition}: {error}") from error
        if header.producer_id < 0:
            raise KafkaError(
                CODES["INVALID_RECORD"], f"{self.partition}: a transaction without a producer id"
            )
        transaction = InTransaction(
            transactional_id, header.producer_id, header.producer_epoch, adds
        )
        appended: asyncio.Future[AppendInfo | KafkaError]
        appended = asyncio.get_running_loop().create_future()

        def turn(code: int) -> None:
            if code:
                why = f"{self.partition}: {transactional_id[:80]!r}: {_why(code)}"
                appended.set_result(KafkaError(code_of(code), why))
            else:
                self._append(appended)

        verifier.begin(self.partition, transaction, header.base_sequence, turn)
        if not appended.done():
            return appended
        outcome = appended.result()
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def _append(self, appended: asyncio.Future[AppendInfo | KafkaError]) -> None:
        partition, records, now_ms, acks, check = self
        try:
            appending = partition.append_in_turn(records, now_ms, acks, check)
            if appending is None:
                appended.set_result(partition.append(records, now_ms, acks, check))
            else:
                appending.add_done_callback(lambda done: appended.set_result(done.result()))
        except KafkaError as error:
            appended.set_result(error)


def _why(code: int) -> str:
    """What the coordinator's ``code`` says of the batch; the client may get another code."""
    if code == CODES["CONCURRENT_TRANSACTIONS"]:
        return "the transaction before is still being ended, try again"
    if code in (CODES["INVALID_TXN_STATE"], CODES["TRANSACTION_ABORTABLE"]):
        return "no transaction of it is open in this partition"
    return f"the coordinator answered {KafkaError(code).name}"
