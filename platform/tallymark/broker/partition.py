"""One partition that this broker leads. The event loop is its only owner: no locks.

Order of things: append to the log, then wake who waits for records, then answer. With one replica
everything appended is committed, so the high watermark is the end of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from tallymark.broker.batches import check_producible
from tallymark.errors import CODES, KafkaError
from tallymark.log.files import FileSlice
from tallymark.log.log import Log
from tallymark.log.results import AppendInfo
from tallymark.protocol.records import HEADER_SIZE, read_header
from tallymark.protocol.schema import Buffer


class Partition:
    """A led partition: its log, its leader epoch, and the fetches that wait for its records.

    ``flush_wanted`` is called when an append makes a flush due (``flush.messages``).
    """

    __slots__ = ("_flush_wanted", "_waiting", "index", "leader_epoch", "log", "topic", "topic_id")

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        leader_epoch: int,
        flush_wanted: Callable[[], None] = lambda: None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self._flush_wanted = flush_wanted
        self._waiting: set[asyncio.Event] = set()

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read."""
        return self.log.high_watermark

    def append(self, records: Buffer, now_ms: int) -> AppendInfo:
        """Append one record batch of a producer. A batch appended before (a retry) is a duplicate
        and keeps its first offsets.

        Raises KafkaError: see :func:`~tallymark.broker.batches.check_producible` and
        :meth:`tallymark.log.log.Log.append`.
        """
        check_producible(records, self.log.name)
        appended = self.log.append(records, now_ms, self.leader_epoch)
        if not appended.duplicate:
            self.wake()
            if self.log.flush_due(now_ms):
                self._flush_wanted()
        return appended

    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which the record at ``offset`` was written; ours at the end of the
        log, -1 where there is nothing."""
        if offset == self.log.end_offset:
            return self.leader_epoch
        if not self.log.start_offset <= offset < self.log.end_offset:
            return -1
        return read_header(first_header(self.log.read(offset, 0).data)).partition_leader_epoch

    def check_epoch(self, known: int) -> None:
        """Fence who believes in another leader epoch; -1 believes in none (KIP-320)."""
        if known >= 0 and known != self.leader_epoch:
            older = known < self.leader_epoch
            raise KafkaError(
                CODES["FENCED_LEADER_EPOCH" if older else "UNKNOWN_LEADER_EPOCH"],
                f"{self}: epoch {known}, the leader's is {self.leader_epoch}",
            )

    def wake(self) -> None:
        """Let every waiting fetch look again: there are records, or the partition is gone."""
        for event in self._waiting:
            event.set()

    def watch(self, event: asyncio.Event) -> None:
        """Set ``event`` at every change until :meth:`unwatch`."""
        self._waiting.add(event)

    def unwatch(self, event: asyncio.Event) -> None:
        """The end of :meth:`watch`."""
        self._waiting.discard(event)


@contextmanager
def watching(partitions: Sequence[Partition]) -> Iterator[asyncio.Event]:
    """An event that is set when one of the partitions changes."""
    event = asyncio.Event()
    for partition in partitions:
        partition.watch(event)
    try:
        yield event
    finally:
        for partition in partitions:
            partition.unwatch(event)


def first_header(data: bytes | FileSlice) -> bytes:
    """The header of the first batch of what was read, without reading the rest."""
    if isinstance(data, bytes):
        return data[:HEADER_SIZE]
    return data.file.pread(HEADER_SIZE, data.position)
