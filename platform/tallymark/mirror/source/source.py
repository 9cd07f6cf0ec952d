"""The source's side of a mirror: reads batches as a member of its group, stores offsets, and notes
what is wrong with the source's log."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.consuming.stream_queue import Chunk
from tallymark.client.reading.message import Gap
from tallymark.errors import CommitFailedError, KafkaError
from tallymark.mirror.corruption import StoppedPartition
from tallymark.mirror.progress import UNKNOWN, Partition
from tallymark.mirror.refused import RefusedPartitions
from tallymark.mirror.source.catalog import NO_ID
from tallymark.mirror.source.gaps import GapNotes
from tallymark.mirror.source.noting_consumer import NotingConsumer, SourceSettings
from tallymark.mirror.source.topic_ids import TopicIds
from tallymark.protocol.records.batch import Batch

POLL_BYTES: Final = 4 * 1024 * 1024
QUEUE_BYTES: Final = 8 * 1024 * 1024

_log = logging.getLogger("mirror")


class SourceBatch(NamedTuple):
    """A batch as it was fetched. Only its records from ``start`` on are to be copied; between
    ``start`` and its first record there is nothing to copy."""

    topic: str
    partition: int
    start: int
    batch: Batch


@dataclass(slots=True)
class TopicCheck:
    """The result of checking the owned partitions, each with its stored offset (UNKNOWN: none).
    ``fresh`` partitions are new to this process, or another consumer has begun them again;
    ``stale`` ones belong to a topic that was created again since."""

    fresh: dict[Partition, int] = field(default_factory=dict[Partition, int])
    stale: dict[Partition, int] = field(default_factory=dict[Partition, int])


class Source:
    """Consumes the source. For the mirror's thread; the connector's threads call ``before_release``
    and note gaps."""

    def __init__(
        self,
        settings: SourceSettings,
        topic_ids: TopicIds,
        before_release: Callable[[], Mapping[Partition, int]],
    ) -> None:
        self._settings = settings
        self._topic_ids = topic_ids
        self._before_release = before_release
        self._ids: dict[Partition, uuid.UUID] = {}
        self._connector: ConsumerConnector | None = None
        self._stream: Stream | None = None
        self.gap_notes = GapNotes()
        self.ends: dict[Partition, int] = {}
        """Where the logs of the partitions ended when they were last fetched."""
        self.gaps: deque[Gap] = deque()
        """The gaps that the connector has reported, oldest first; the mirror removes them."""
        self.stopped: dict[Partition, StoppedPartition] = {}
        """The owned partitions with a batch that cannot be read."""
        self.refused = RefusedPartitions()
        """The partitions of which the target refuses a message: they are not read."""
        self.begun: dict[Partition, int] = {}
        """Where the reading of partitions began; the mirror removes the entries."""
        self._read: set[Partition] = set()
        self._empty: dict[Partition, tuple[int, int]] = {}
        """Ranges at the present end of a partition without anything to read; the next batch begins
        behind them."""

    def open(self) -> None:
        """Join the group, if that is not done. ConnectError, UserError: ZooKeeper does not answer,
        or has no such cluster."""
        if self._connector is not None:
            return
        settings = self._settings
        connector = ConsumerConnector(
            zookeeper_connect=settings.connect,
            bootstrap_servers=settings.bootstrap_servers,
            coordinator="zookeeper",
            group=settings.group,
            enable_auto_commit=False,
            session_timeout_ms=settings.session_timeout_ms,
            on_gap=self.gaps.append,
            before_release=self._release,
            queue_bytes=QUEUE_BYTES,
            client_factory=self._client,
            **settings.security,
        )
        try:
            (self._stream,) = connector.create_message_streams_by_filter(settings.topics)
        except BaseException:
            connector.shutdown()
            raise
        self._connector = connector

    def close(self) -> None:
        """Give up all partitions, and leave the group."""
        connector, self._connector = self._connector, None
        if connector is not None:
            connector.shutdown()

    def poll(self, seconds: float) -> list[SourceBatch]:
        """The batches that are there; waits for the first. An error that it raises is permanent."""
        if self._connector is None or self._stream is None:
            return []
        chunks = self._stream.poll_chunks(seconds, POLL_BYTES)
        return [piece for chunk in chunks for piece in self._pieces(chunk)]

    def _pieces(self, chunk: Chunk) -> Iterator[SourceBatch]:
        partition = (chunk.progress.topic, chunk.progress.partition)
        if partition not in self._read:
            self._read.add(partition)
            self.begun[partition] = chunk.start
        start, end = self._empty.pop(partition, (chunk.start, chunk.start))
        start = start if end == chunk.start else chunk.start
        for batch in chunk.batches:
            yield SourceBatch(*partition, start, batch)
            start = batch.header.next_offset
        if not chunk.batches:
            self._empty[partition] = (start, chunk.next_offset)

    def empty_until(self) -> dict[Partition, int]:
        """Partition -> the offset before which there was nothing to read, where nothing was read
        since."""
        return {partition: end for partition, (start, end) in self._empty.items() if end > start}

    @property
    def owned(self) -> set[Partition]:
        """The partitions that are this mirror's now."""
        owned = self._connector.assignment if self._connector else {}
        return {(topic, number) for topic, numbers in owned.items() for number in numbers}

    # -- offsets ------------------------------------------------------------------------------

    def store(self, offsets: Mapping[Partition, int]) -> set[Partition]:
        """Store the next offsets. Returns the partitions that another consumer owns by now.
        ConnectError, SessionLostError: it is not known whether they were stored."""
        if self._connector is None:
            return set(offsets)
        try:
            self._connector.commit_offsets(offsets)
        except KafkaError:
            return self._store_each(self._connector, offsets)
        return set()

    def stored(self, partition: Partition) -> int:
        """The offset that is stored now; UNKNOWN: none."""
        return self._topic_ids.stored([partition]).get(partition, UNKNOWN)

    def _store_each(
        self, connector: ConsumerConnector, offsets: Mapping[Partition, int]
    ) -> set[Partition]:
        lost: set[Partition] = set()
        for partition, offset in offsets.items():
            try:
                connector.commit_offsets({partition: offset})
            except KafkaError:
                lost.add(partition)
        return lost

    def go_back(self, partition: Partition, offset: int) -> None:
        """Read the partition again from ``offset`` on, if it is still this mirror's. What was read
        of it and not returned yet is dropped."""
        self._empty.pop(partition, None)
        if self._connector is not None:
            with suppress(CommitFailedError):
                self._connector.seek(*partition, offset)

    # -- topics that were created again -------------------------------------------------------

    def exists(self, topic: str) -> bool:
        """Whether the source has the topic still."""
        return self._topic_ids.exists(topic)

    def knows(self, partition: Partition) -> bool:
        """Whether the partition's stored offset is known to belong to the present topic."""
        return partition in self._ids

    def topic_id(self, partition: Partition) -> str:
        """The id of the topic that is being copied, 32 hex digits; empty: not known."""
        known = self._ids.get(partition, NO_ID)
        return "" if known == NO_ID else known.hex

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Nothing is known of these partitions any more."""
        for partition in partitions:
            self._ids.pop(partition, None)

    def check_topics(self) -> TopicCheck:
        """Compare the topic ids of the owned partitions with those under which they were copied."""
        owned = self.owned
        current = self._topic_ids.current(topic for topic, _ in owned)
        doubtful = [at for at in sorted(owned) if self._ids.get(at) != current[at[0]]]
        if not doubtful:
            return TopicCheck()
        copied, stored = self._topic_ids.copied(doubtful), self._topic_ids.stored(doubtful)
        found = TopicCheck()
        new: dict[Partition, uuid.UUID] = {}
        for at in doubtful:
            now, then = current[at[0]], copied.get(at)
            if then not in (None, now) and NO_ID not in (then, now):
                found.stale[at] = stored.get(at, UNKNOWN)
                continue
            if then is None and now != NO_ID:
                new[at] = now
            if now != NO_ID or at not in self._ids:  # a topic that is gone stays what it was
                self._ids[at] = now if now != NO_ID or then is None else then
                found.fresh[at] = stored.get(at, UNKNOWN)
        # Before anything is copied, so before an offset is stored.
        self._topic_ids.remember(new)
        return found

    def start_over(self, partitions: Sequence[Partition]) -> None:
        """Begin these partitions at their start; the others continue. All partitions are given up
        and assigned again: call it only where ``before_release`` may be called."""
        lost = self.store(dict.fromkeys(partitions, 0))
        current = self._topic_ids.current(topic for topic, _ in partitions)
        # After the offset: a mirror that is killed in between starts over again, and leaves nothing
        # out.
        self._topic_ids.remember(
            {at: current[at[0]] for at in partitions if at not in lost and current[at[0]] != NO_ID}
        )
        self.close()
        for partition in partitions:
            self.refused.forget(partition)
        gone = set(partitions)
        self.gaps = deque(gap for gap in self.gaps if (gap.topic, gap.partition) not in gone)
        self.open()

    # -- called by the connector --------------------------------------------------------------

    def _release(self) -> Mapping[Partition, int]:
        offsets = self._before_release()
        self._ids = {}
        self._empty = {}
        self.stopped.clear()
        self.refused.released()
        self._read.clear()
        self.begun.clear()
        self.gap_notes.forget()
        return offsets

    def _client(self, servers: str) -> NotingConsumer:
        notes = self.gap_notes, self.ends, self.stopped
        return NotingConsumer(servers, self._settings, *notes, self.refused.held)
