"""What of a partition is exposed to its readers, and who waits for more: the half of
:class:`tallymark.broker.partitions.partition.Partition` that appends nothing.

The high watermark is the partition's, not the log's: consumers see the records below it, and only
these may be deleted or compacted. With one replica every appended record is committed, so it is the
end of the log; with ``flush.before.expose`` it is the end of the flushed records, and a flush wakes
the fetches. With several replicas it is what they have in common:
:meth:`ExposedPartition.commit`.

::

    log start          last stable offset        high watermark         log end
    |  read_committed  |  and those behind an    |  empty, the fetch    |  OFFSET_OUT_OF_RANGE
    |                  |  open transaction: the  |  waits               |
    |  all others      |  other consumers        |                      |
    |  followers read                                                   |  a follower's waits here
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set

from tallymark.broker.partitions.append_queue import AppendQueue
from tallymark.broker.partitions.commit_waits import CommitTicket, CommitWaits, Waiter
from tallymark.broker.partitions.lead import Lead, ReadUntil, Watcher
from tallymark.broker.partitions.stable_readers import StableReaders
from tallymark.errors import KafkaError
from tallymark.log.log import Log


class ExposedPartition(ABC):
    """See the module. Made as a :class:`~tallymark.broker.partitions.partition.Partition`."""

    __slots__ = (
        "_commit_waits",
        "_committed",
        "_queue",
        "_shown",
        "_stable_readers",
        "_waiting",
        "index",
        "lead",
        "log",
        "topic",
    )

    topic: str
    index: int
    log: Log
    lead: Lead | None
    _commit_waits: CommitWaits
    _committed: int | None
    _queue: AppendQueue
    _shown: int
    _stable_readers: StableReaders | None
    _waiting: set[Watcher]

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
        checkpoint, or where the log begins or ends if that is nearer. Call it before the first
        read; :meth:`commit` moves it on."""
        self._committed = self._within_log(known)

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
            self._want_flush()
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
            self._want_flush()

    def failed(self, error: KafkaError) -> None:
        """The disk has failed: all waiters get the error."""
        self.fail_waits(error)
        self.wake()

    def wake(self) -> None:
        """Let every parked fetch read again, those of followers, too: the partition is not led here
        any more, or its log begins elsewhere."""
        self._wake_readers()
        if self._stable_readers is not None:
            self._stable_readers.wake()
        if self.lead is not None:
            self.lead.wake()

    def _wake_readers(self) -> None:
        for event in self._waiting:
            event.set()
        if self._stable_readers is not None:
            self._stable_readers.look(self)

    @property
    def stable_readers(self) -> StableReaders:
        """Where readers of committed records wait."""
        found = self._stable_readers
        if found is None:
            found = self._stable_readers = StableReaders()
        found.look(self)
        return found

    @property
    def waiting(self) -> Set[Watcher]:
        """The watchers that wait for a change, but for the :attr:`stable_readers`."""
        return self._waiting

    def watch(self, event: Watcher) -> None:
        """Set ``event`` at every change until :meth:`unwatch`; a reader of committed records waits
        among the :attr:`stable_readers`."""
        self._waiting.add(event)

    def unwatch(self, event: Watcher) -> None:
        """The end of :meth:`watch`."""
        self._waiting.discard(event)

    @abstractmethod
    def _want_flush(self) -> None: ...
