"""The source's side of a mirror: batches of its group, how far they are copied, and what is wrong
with the log they came from."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.consuming.stream_queue import Chunk
from tallymark.client.core.metadata import TopicInfo
from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.reading.behind import Met, goes_on_at
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.isolation import Isolation
from tallymark.client.reading.message import Gap
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import BatchCutError, CorruptMessageError, KafkaError
from tallymark.mirror.corruption import StoppedPartition, as_kafka_error
from tallymark.mirror.progress import UNKNOWN, Partition
from tallymark.mirror.source.catalog import NO_ID
from tallymark.mirror.source.gaps import GapNotes
from tallymark.mirror.source.topic_ids import TopicIds
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.topic_partition import EARLIEST, LATEST

REQUEST_TIMEOUT_MS = 10_000
POLL_BYTES: Final = 4 * 1024 * 1024
QUEUE_BYTES: Final = 8 * 1024 * 1024

_log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """``connect`` is ``host:port/chroot`` of the source's ZooKeeper, ``topics`` a regular
    expression on whole names. ``bootstrap_servers``: of a source that is not in ZooKeeper itself,
    where then only the group is. ``isolation``: whether what was aborted is read too.
    ``skip_corrupt``: whether batches whose CRC does not hold are left out."""

    connect: str
    group: str
    topics: str
    session_timeout_ms: int
    bootstrap_servers: str | None = None
    isolation: Isolation = "read_committed"
    skip_corrupt: bool = True
    security: SecuritySettings = field(default_factory=SecuritySettings)


class SourceBatch(NamedTuple):
    """A batch as it was fetched; only what is in it from ``start`` on is wanted, and between
    ``start`` and its first record there is nothing to be copied."""

    topic: str
    partition: int
    start: int
    batch: Batch


@dataclass(slots=True)
class TopicCheck:
    """What looking at the owned partitions found, each with the offset stored for it (UNKNOWN:
    none). ``fresh`` were not known yet, or were begun anew by another consumer; ``stale`` belong to
    a topic that was made again since."""

    fresh: dict[Partition, int] = field(default_factory=dict[Partition, int])
    stale: dict[Partition, int] = field(default_factory=dict[Partition, int])


class Source:
    """Consumes the source. For the mirror's thread; ``before_release`` and the noting of gaps are
    called from the connector's threads."""

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
        """What the connector has told of, oldest first. Whoever deals with one removes it."""
        self.stopped: dict[Partition, StoppedPartition] = {}
        """Where a batch cannot be read; of the partitions that are ours."""
        self.begun: dict[Partition, int] = {}
        """Where the reading of partitions began, until somebody takes note."""
        self._read: set[Partition] = set()
        self._empty: dict[Partition, tuple[int, int]] = {}
        """Where nothing was to be read: it belongs to what the next batch lies behind."""

    def open(self) -> None:
        """Join the group, if that is not done. ConnectError, UserError: ZooKeeper is not there, or
        has no such cluster."""
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
        """Give everything up, and leave the group."""
        connector, self._connector = self._connector, None
        if connector is not None:
            connector.shutdown()

    def poll(self, seconds: float) -> list[SourceBatch]:
        """Batches that are there; waits for the first. What it raises lasts."""
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
        """Up to where there was nothing to be read, of partitions of which nothing came since."""
        return {partition: end for partition, (start, end) in self._empty.items() if end > start}

    @property
    def owned(self) -> set[Partition]:
        """The partitions that are this mirror's now."""
        owned = self._connector.assignment if self._connector else {}
        return {(topic, number) for topic, numbers in owned.items() for number in numbers}

    # -- offsets ------------------------------------------------------------------------------

    def store(self, offsets: Mapping[Partition, int]) -> set[Partition]:
        """Store next offsets; returns the partitions that are somebody else's by now. ConnectError,
        SessionLostError: nobody knows whether it was done."""
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

    # -- topics that were made again ----------------------------------------------------------

    def exists(self, topic: str) -> bool:
        """Whether the source has the topic still."""
        return self._topic_ids.exists(topic)

    def knows(self, partition: Partition) -> bool:
        """Whether the partition's stored offset is known to be of the topic as it is now."""
        return partition in self._ids

    def topic_id(self, partition: Partition) -> str:
        """The id of the topic as it is copied now, 32 hex digits; empty: not known."""
        known = self._ids.get(partition, NO_ID)
        return "" if known == NO_ID else known.hex

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Nothing is known of these partitions any more."""
        for partition in partitions:
            self._ids.pop(partition, None)

    def check_topics(self) -> TopicCheck:
        """Compare the topics of the owned partitions with what they were when they were copied."""
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
        # Before anything of them is copied, so before an offset is stored.
        self._topic_ids.remember(new)
        return found

    def start_over(self, partitions: Sequence[Partition]) -> None:
        """Begin these partitions at their start; the others go on. Everything is given up and
        taken over again: call it where ``before_release`` may be called."""
        lost = self.store(dict.fromkeys(partitions, 0))
        current = self._topic_ids.current(topic for topic, _ in partitions)
        # After the offset: one who dies in between starts over again, and leaves nothing out.
        self._topic_ids.remember(
            {at: current[at[0]] for at in partitions if at not in lost and current[at[0]] != NO_ID}
        )
        self.close()
        gone = set(partitions)
        self.gaps = deque(gap for gap in self.gaps if (gap.topic, gap.partition) not in gone)
        self.open()

    # -- called by the connector --------------------------------------------------------------

    def _release(self) -> Mapping[Partition, int]:
        offsets = self._before_release()
        self._ids = {}
        self._empty = {}
        self.stopped.clear()
        self._read.clear()
        self.begun.clear()
        self.gap_notes.forget()
        return offsets

    def _client(self, servers: str) -> _NotingClient:
        return _NotingClient(servers, self._settings, self.gap_notes, self.ends, self.stopped)


class _NotingClient:
    """A simple consumer that notes what is remarkable in the batches it fetches, where the logs
    end, and which cannot be read on; and that leaves out what cannot be read, unless its partition
    is to wait there."""

    def __init__(
        self,
        servers: str,
        settings: SourceSettings,
        holes: GapNotes,
        ends: dict[Partition, int],
        stopped: dict[Partition, StoppedPartition],
    ) -> None:
        self._gap_notes = holes
        self._ends = ends
        self._stopped = stopped
        self._met = Met()
        self._skips = settings.skip_corrupt
        self._consumer = SimpleConsumer(
            bootstrap_servers=servers,
            client_id=settings.group,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            isolation=settings.isolation,
            **settings.security,
        )

    def multifetch(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> Sequence[Fetched | KafkaError]:
        answers = self._consumer.multifetch(
            specs, max_bytes=max_bytes, max_wait_ms=max_wait_ms, min_bytes=min_bytes
        )
        self._note(answers)
        return [self._mended(answer) for answer in answers]

    def multifetch_ready(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> Sequence[Fetched | KafkaError | None]:
        answers = self._consumer.multifetch_ready(
            specs, max_bytes=max_bytes, max_wait_ms=max_wait_ms, min_bytes=min_bytes
        )
        self._note(answers)
        return [None if answer is None else self._mended(answer) for answer in answers]

    def _mended(self, answer: Fetched | KafkaError) -> Fetched | KafkaError:
        if not isinstance(answer, CorruptMessageError):
            return answer
        cut = isinstance(answer, BatchCutError)
        if not cut and not self._met.is_lasting(answer):
            return answer
        if cut or not self._skips:
            stopped = StoppedPartition(answer.topic, answer.partition, answer.offset, answer.reason)
            self._stopped[answer.topic, answer.partition] = stopped
            return as_kafka_error(stopped)
        try:
            return self._passed_over(answer)
        except KafkaError as error:  # the log is another one by now: look again
            where = (answer.topic, answer.partition, answer.offset)
            return (
                error if error.retriable else as_kafka_error(StoppedPartition(*where, str(error)))
            )

    def _passed_over(self, answer: CorruptMessageError) -> Fetched:
        """An empty fetch that goes on behind the batch. ConnectError, TimedOutError, KafkaError:
        the cluster does not say where."""
        where = (answer.topic, answer.partition)
        (end,) = self._consumer.get_offsets_before(*where, LATEST)
        (start,) = self._consumer.get_offsets_before(*where, EARLIEST)
        behind = goes_on_at(answer, lambda at: self._consumer.fetch(*where, at, max_wait_ms=0), end)
        text = "%s-%d: offsets %d to %d cannot be read and are left out: %s"
        _log.error(text, *where, answer.offset, behind - 1, answer)
        self._gap_notes.corrupt(where, answer.offset, behind)
        self._met.forget(*where)
        return Fetched(*where, answer.offset, end, start, (), behind, -1)

    def _note(self, answers: Sequence[Fetched | KafkaError | None]) -> None:
        for answer in answers:
            if isinstance(answer, Fetched):
                headers = (batch.header for batch in answer.batches)
                self._gap_notes.note((answer.topic, answer.partition), headers)
                self._gap_notes.aborted((answer.topic, answer.partition), answer.aborted)
                self._ends[answer.topic, answer.partition] = answer.high_watermark
                stopped = self._stopped.get((answer.topic, answer.partition))
                if stopped is not None and answer.next_offset > stopped.offset == answer.offset:
                    del self._stopped[answer.topic, answer.partition]

    def get_offsets_before(self, topic: str, partition: int, time: int) -> Sequence[int]:
        return self._consumer.get_offsets_before(topic, partition, time)

    def topics(self) -> Mapping[str, TopicInfo]:
        return self._consumer.topics()

    def close(self) -> None:
        self._consumer.close()
