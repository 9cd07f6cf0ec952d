"""One partition on this broker in one leader epoch. The event loop is its only owner: no locks.

The steps: prepare the batch (a long one in a thread), append it to the log, wake the parked
fetches, answer. How far
consumers may read, and who waits for more: :mod:`tallymark.broker.partitions.exposed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

from tallymark.broker.metrics.counters import TopicTraffic
from tallymark.broker.partitions.append_queue import AppendQueue
from tallymark.broker.partitions.commit_waits import CommitWaits
from tallymark.broker.partitions.exposed import ExposedPartition
from tallymark.broker.partitions.lead import Lead, Watcher
from tallymark.broker.partitions.producible import check_producible
from tallymark.broker.partitions.stable_readers import StableReaders
from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.disk.files import FileSlice
from tallymark.log.log import Log
from tallymark.log.results import AppendInfo
from tallymark.log.validation.preparation import Prepared, is_slow, prepare
from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from tallymark.protocol.records.markers import Marker
from tallymark.protocol.schema import Buffer
from tallymark.transactions.verifying import Verifications

ACKS_ALL: Final = -1
TransactionCheck: TypeAlias = Callable[[BatchHeader], None]
"""Called right before a batch of a transaction is written; raises KafkaError where the transaction
is not open any more."""


class Partition(ExposedPartition):
    """A partition: its log, its leader epoch, and the fetches that wait for its records.
    ``traffic`` counts the bytes in and out of all partitions of its topic. ``lead`` is set where
    this broker leads it and it has several replicas (:meth:`replicate`).

    ``flush_wanted`` is called with this partition when an append makes a flush due
    (``flush.messages``), or when a producer waits for one. ``preparers`` are the threads that
    prepare batches; None: the event loop's default. ``verifications`` are of producers that begin
    a transaction (:mod:`~tallymark.broker.partitions.verifier`); None: there was none.
    """

    __slots__ = (
        "_flush_wanted",
        "is_withdrawn",
        "leader_epoch",
        "topic_id",
        "traffic",
        "verifications",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        leader_epoch: int,
        flush_wanted: Callable[[Partition], None] = lambda _: None,
        traffic: TopicTraffic | None = None,
        preparers: Executor | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.traffic = traffic or TopicTraffic()
        self.lead: Lead | None = None
        self.is_withdrawn = False  # see withdraw()
        self.verifications: Verifications[Callable[[int], None]] | None = None
        self._flush_wanted = flush_wanted
        self._committed: int | None = None
        self._shown = 0
        self._commit_waits = CommitWaits(leader_epoch)
        self._queue = AppendQueue(preparers)
        self._waiting: set[Watcher] = set()
        self._stable_readers: StableReaders | None = None  # most partitions never have one

    def replicate(self, lead: Lead) -> None:
        """This broker leads the partition, which has several replicas: ``lead`` moves the high
        watermark from now on. Without :meth:`begin_replicated` it has had one replica until now,
        and what consumers have seen stays visible."""
        if self._committed is None:
            self._committed = self.high_watermark
        self.lead = lead

    def configure(self, config: LogConfig) -> None:
        """Change the settings of the log. What consumers have seen stays visible where
        ``flush.before.expose`` is switched on."""
        if config.flush_before_expose and not self.log.config.flush_before_expose:
            self._shown = self.log.end_offset
        self.log.config = config

    def append(
        self,
        records: Buffer,
        now_ms: int,
        acks: int = 1,
        check: TransactionCheck | None = None,
    ) -> AppendInfo:
        """Append one record batch of a producer. A batch that was appended before (a retry) is a
        duplicate, and the result has its first offsets. ``check`` is that of a transaction; without
        it batches of transactions are refused.

        Raises KafkaError: see :func:`~tallymark.broker.partitions.producible.check_producible` and
        :meth:`tallymark.log.log.Log.append`; with ``acks`` -1 those of
        :meth:`~tallymark.broker.partitions.lead.Lead.check_enough`.
        """
        check_producible(records, self.log.name, transactional=check is not None)
        if check is not None:
            prepared = prepare(records, self.log.config, now_ms, self.log.name)
            return self._append_prepared(prepared, len(records), now_ms, acks, check)
        if acks == ACKS_ALL and self.lead is not None:
            self.lead.check_enough()
        appended = self.log.append(records, now_ms, self.leader_epoch)
        return self._appended(appended, len(records), now_ms)

    def append_in_turn(
        self,
        records: Buffer,
        now_ms: int,
        acks: int = 1,
        check: TransactionCheck | None = None,
    ) -> asyncio.Task[AppendInfo | KafkaError] | None:
        """:meth:`append` for a batch that takes long to prepare, or has to wait for such ones:
        returns a task with its outcome. None where there is nothing to wait for.

        Raises KafkaError: see :func:`~tallymark.broker.partitions.producible.check_producible`; as
        :meth:`when_exposed` where the partition is no longer led here.
        """
        self._queue.check()
        log = self.log
        if not self._queue.busy and not is_slow(records, log.config, now_ms):
            return None
        check_producible(records, log.name, transactional=check is not None)

        def append(prepared: Prepared) -> AppendInfo:
            return self._append_prepared(prepared, len(records), now_ms, acks, check)

        return self._queue.put(partial(prepare, records, log.config, now_ms, log.name), append)

    def _append_prepared(
        self,
        prepared: Prepared,
        size: int,
        now_ms: int,
        acks: int,
        check: TransactionCheck | None,
    ) -> AppendInfo:
        if acks == ACKS_ALL and self.lead is not None:
            self.lead.check_enough()
        if check is not None:
            check(prepared.header)
        appended = self.log.append_prepared(prepared, now_ms, self.leader_epoch)
        return self._appended(appended, size, now_ms)

    def append_marker(
        self, producer_id: int, producer_epoch: int, marker: Marker, now_ms: int, version: int
    ) -> int:
        """Append the end of a transaction, for its coordinator. Returns the offset that must be
        exposed before that is told: the marker's, or for a repetition the last one of the log.

        Raises KafkaError as :meth:`~tallymark.log.log.Log.append_marker` and
        :meth:`~tallymark.broker.partitions.lead.Lead.check_enough` do.
        """
        self._queue.check()
        if self.lead is not None:
            self.lead.check_enough()
        appended = self.log.append_marker(
            producer_id, producer_epoch, marker, now_ms, self.leader_epoch, version=version
        )
        if self.verifications is not None:
            self.verifications.marker(producer_id)
        if appended is None:
            return self.log.end_offset - 1
        self._appended(appended, 0, now_ms)
        return appended.last_offset

    def _want_flush(self) -> None:
        self._flush_wanted(self)

    def _appended(self, appended: AppendInfo, size: int, now_ms: int) -> AppendInfo:
        """Count the batch, and wake the parked fetches."""
        if not appended.duplicate:
            self.traffic.received_messages += appended.last_offset - appended.first_offset + 1
            self.traffic.received_bytes += size
            if self.lead is not None:
                self.lead.grown()
            elif (
                self._waiting or self._stable_readers
            ) and appended.last_offset < self.high_watermark:
                self._wake_readers()
            if self.log.flush_due(now_ms):
                self._flush_wanted(self)
        return appended

    async def delete_records(self, offset: int) -> int:
        """Delete the records before ``offset`` (-1: all that readers see). Returns the new log
        start offset; it is on the disk by then.

        Raises KafkaError: POLICY_VIOLATION where the topic's ``cleanup.policy`` has no ``delete``,
        OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        log = self.log
        if not log.config.delete:
            raise KafkaError(
                CODES["POLICY_VIOLATION"], f"{self}: cleanup.policy does not say delete"
            )
        until = self.high_watermark
        job = log.begin_deletion(until if offset == -1 else offset, until)
        self.wake()
        await asyncio.to_thread(job.run)
        log.finish_deletion(job)
        return job.start_offset

    def epoch_at(self, offset: int, until: int | None = None) -> int:
        """The leader epoch of the record at ``offset``; the current epoch at ``until``, where a
        read ends (None: the high watermark), -1 where there is no record. Safe from any thread;
        call it in a thread where the log's indexes are not in memory."""
        end = self.high_watermark if until is None else until
        if offset == end:
            return self.leader_epoch
        if not self.log.start_offset <= offset < end:
            return -1
        return read_header(first_header(self.log.read(offset, 0, end).data)).partition_leader_epoch

    def check_epoch(self, known: int) -> None:
        """Raise an error for a client with another leader epoch; -1 is a client without one
        (KIP-320)."""
        if known >= 0 and known != self.leader_epoch:
            older = known < self.leader_epoch
            raise KafkaError(
                CODES["FENCED_LEADER_EPOCH" if older else "UNKNOWN_LEADER_EPOCH"],
                f"{self}: epoch {known}, the leader's is {self.leader_epoch}",
            )

    def withdraw(self, *, deleted: bool = False) -> None:
        """This broker no longer leads the partition; ``deleted``: no broker does. Nothing is
        appended from now on, and all waiters get the error."""
        name = "UNKNOWN_TOPIC_OR_PARTITION" if deleted else "NOT_LEADER_OR_FOLLOWER"
        self.is_withdrawn = True
        self._queue.refuse(CODES[name], f"{self} is gone")
        self.fail_waits(KafkaError(CODES[name], f"{self} is gone"))
        self.wake()

    async def close(self) -> None:
        """The broker stops: refuse batches that are not appended yet. On return no batch is being
        prepared."""
        await self._queue.close(CODES["NOT_LEADER_OR_FOLLOWER"], f"{self}: the broker stops")


def first_header(data: bytes | FileSlice) -> bytes:
    """The header of the first batch in ``data``, without reading the rest."""
    if isinstance(data, bytes):
        return data[:HEADER_SIZE]
    return data.file.pread(HEADER_SIZE, data.position)
