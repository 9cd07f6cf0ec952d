"""One partition on this broker in one leader epoch. The event loop is its only owner: no locks.

The steps: prepare the batch (a long one in a thread), append it to the log, wake the parked
fetches, answer.

The high watermark is the partition's, not the log's: consumers see the records below it, and only
these may be deleted or compacted. With one replica every appended record is committed, so it is the
end of the log; with ``flush.before.expose`` it is the end of the flushed records, and a flush wakes
the fetches. With several replicas it is what they have in common: :meth:`Partition.commit`.

::

    log start          high watermark         log end
    |  consumers read  |  empty, the fetch    |  OFFSET_OUT_OF_RANGE
    |                  |  waits               |
    |  followers read                         |  a follower's fetch waits here
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from concurrent.futures import Executor
from functools import partial
from typing import Final
from uuid import UUID

from tallymark.broker.metrics.counters import TopicTraffic
from tallymark.broker.partitions.append_queue import AppendQueue
from tallymark.broker.partitions.commit_waits import CommitTicket, CommitWaits, Waiter
from tallymark.broker.partitions.lead import Lead, ReadUntil, Watcher
from tallymark.broker.partitions.producible import check_producible
from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.disk.files import FileSlice
from tallymark.log.log import Log
from tallymark.log.results import AppendInfo
from tallymark.log.validation.preparation import Prepared, is_slow, prepare
from tallymark.protocol.records.batch import HEADER_SIZE, read_header
from tallymark.protocol.schema import Buffer

ACKS_ALL: Final = -1


class Partition:
    """A partition: its log, its leader epoch, and the fetches that wait for its records.
    ``traffic`` counts the bytes in and out of all partitions of its topic. ``lead`` is set where
    this broker leads it and it has several replicas (:meth:`replicate`).

    ``flush_wanted`` is called with this partition when an append makes a flush due
    (``flush.messages``), or when a producer waits for one. ``preparers`` are the threads that
    prepare batches; None: the event loop's default.
    """

    __slots__ = (
        "_commit_waits",
        "_committed",
        "_flush_wanted",
        "_queue",
        "_shown",
        "_waiting",
        "index",
        "is_withdrawn",
        "lead",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
        "traffic",
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
        self._flush_wanted = flush_wanted
        self._committed: int | None = None
        self._shown = 0
        self._commit_waits = CommitWaits(leader_epoch)
        self._queue = AppendQueue(preparers)
        self._waiting: set[Watcher] = set()

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read."""
        if self._committed is not None:
            return self._committed
        log = self.log
        if log.config.flush_before_expose:
            return max(log.recovery_point, self._shown)
        return log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which readers of committed records may read."""
        unstable = self.log.first_unstable(committed := self.high_watermark)
        return committed if unstable is None else min(committed, unstable)

    @property
    def is_replicated(self) -> bool:
        """Whether the partition has several replicas."""
        return self._committed is not None

    def until(self, bound: ReadUntil) -> int:
        """The offset at which a read ends."""
        if bound is ReadUntil.HIGH_WATERMARK:
            return self.high_watermark
        return self.log.end_offset if bound is ReadUntil.END else self.last_stable_offset

    def begin_replicated(self, known: int) -> None:
        """The partition has several replicas: the high watermark begins at ``known``, that of the
        checkpoint, or where the log begins or ends if that is nearer. Call it before anybody reads;
        :meth:`commit` moves it on."""
        self._committed = self._within_log(known)

    def replicate(self, lead: Lead) -> None:
        """This broker leads the partition, which has several replicas: ``lead`` moves the high
        watermark from now on. Without :meth:`begin_replicated` it has had one replica until now,
        and what consumers have seen stays visible."""
        if self._committed is None:
            self._committed = self.high_watermark
        self.lead = lead

    def lower(self, offset: int) -> None:
        """The log is to be cut at ``offset``, or was: the high watermark is not above it. One that
        is too low costs a wait, one that is too high shows records that may go. No effect with one
        replica."""
        before = self._committed
        if before is not None:
            self._committed = self._within_log(min(before, offset))
            if self._committed != before:
                self.wake()

    def _within_log(self, offset: int) -> int:
        return max(self.log.start_offset, min(offset, self.log.end_offset))

    def commit(self, offset: int) -> None:
        """The replicas have all records below ``offset``: consumers may read them. From the first
        call on this is the high watermark; it never falls, since one object is one leader epoch
        (but see :meth:`lower`), and never passes the end of the log."""
        before = self._committed
        self._committed = after = min(max(offset, before or 0), self.log.end_offset)
        if after != before:
            self._wake_readers()
            self._commit_waits.exposed(after)

    def configure(self, config: LogConfig) -> None:
        """Change the settings of the log. What consumers have seen stays visible where
        ``flush.before.expose`` is switched on."""
        if config.flush_before_expose and not self.log.config.flush_before_expose:
            self._shown = self.log.end_offset
        self.log.config = config

    def append(self, records: Buffer, now_ms: int, acks: int = 1) -> AppendInfo:
        """Append one record batch of a producer. A batch that was appended before (a retry) is a
        duplicate, and the result has its first offsets.

        Raises KafkaError: see :func:`~tallymark.broker.partitions.producible.check_producible` and
        :meth:`tallymark.log.log.Log.append`; with ``acks`` -1 those of
        :meth:`~tallymark.broker.partitions.lead.Lead.check_enough`.
        """
        if acks == ACKS_ALL and self.lead is not None:
            self.lead.check_enough()
        check_producible(records, self.log.name)
        appended = self.log.append(records, now_ms, self.leader_epoch)
        return self._appended(appended, len(records), now_ms)

    def append_in_turn(
        self, records: Buffer, now_ms: int, acks: int = 1
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
        check_producible(records, log.name)

        def append(prepared: Prepared) -> AppendInfo:
            if acks == ACKS_ALL and self.lead is not None:
                self.lead.check_enough()
            appended = log.append_prepared(prepared, now_ms, self.leader_epoch)
            return self._appended(appended, len(records), now_ms)

        return self._queue.put(partial(prepare, records, log.config, now_ms, log.name), append)

    def _appended(self, appended: AppendInfo, size: int, now_ms: int) -> AppendInfo:
        """Count the batch, and wake the parked fetches."""
        if not appended.duplicate:
            self.traffic.received_messages += appended.last_offset - appended.first_offset + 1
            self.traffic.received_bytes += size
            if self.lead is not None:
                self.lead.grown()
            elif self._waiting and appended.last_offset < self.high_watermark:
                self._wake_readers()
            if self.log.flush_due(now_ms):
                self._flush_wanted(self)
        return appended

    def when_exposed(self, offset: int, waiter: Waiter, timeout_ms: int) -> CommitTicket | None:
        """For a producer with ``acks=all``, or a coordinator, after its append: None where readers
        see the record at ``offset`` already, as always with one replica and without
        ``flush.before.expose``. Otherwise ``waiter`` is called when they do.

        The waiter gets a KafkaError otherwise: KAFKA_STORAGE_ERROR when the flush fails,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT after ``timeout_ms``,
        NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION when this broker stops leading the
        partition. Where it has stopped before the call, that error is raised.
        """
        if offset < self.high_watermark:
            return None
        return self._begin_wait().add(offset + 1, waiter, timeout_ms)

    def _begin_wait(self) -> CommitWaits:
        """A flush that is waited for is requested at once."""
        self._queue.check()
        if self._committed is None or self.log.config.flush_before_expose:
            self._flush_wanted(self)
        return self._commit_waits

    def forget(self, ticket: CommitTicket) -> None:
        """The request does not wait any more."""
        self._commit_waits.forget(ticket)

    def fail_waits(self, error: KafkaError) -> None:
        """All that wait for exposed records get the error."""
        self._commit_waits.fail(error)

    def flushed(self) -> None:
        """A flush has succeeded: more records may be exposed now."""
        shows = self.log.config.flush_before_expose
        if self.lead is not None:
            self.lead.grown()
        elif self._committed is None and (shows or self._commit_waits):
            self._wake_readers()
            self._commit_waits.exposed(self.high_watermark)
        if self._commit_waits and (self._committed is None or shows):
            self._flush_wanted(self)

    def failed(self, error: KafkaError) -> None:
        """The disk has failed: all waiters get the error."""
        self.fail_waits(error)
        self.wake()

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

    def epoch_at(self, offset: int, bound: ReadUntil = ReadUntil.HIGH_WATERMARK) -> int:
        """The leader epoch of the record at ``offset``; the current epoch where a read ends, -1
        where there is no record. Safe from any thread; call it in a thread where the log's indexes
        are not in memory."""
        end = self.until(bound)
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

    def wake(self) -> None:
        """Let every parked fetch read again, those of followers, too: the partition is not led here
        any more, or its log begins elsewhere."""
        self._wake_readers()
        if self.lead is not None:
            self.lead.wake()

    def _wake_readers(self) -> None:
        for event in self._waiting:
            event.set()

    @property
    def waiting(self) -> Set[Watcher]:
        """The watchers that wait for a change."""
        return self._waiting

    def watch(self, event: Watcher) -> None:
        """Set ``event`` at every change until :meth:`unwatch`."""
        self._waiting.add(event)

    def unwatch(self, event: Watcher) -> None:
        """The end of :meth:`watch`."""
        self._waiting.discard(event)


def first_header(data: bytes | FileSlice) -> bytes:
    """The header of the first batch in ``data``, without reading the rest."""
    if isinstance(data, bytes):
        return data[:HEADER_SIZE]
    return data.file.pread(HEADER_SIZE, data.position)
