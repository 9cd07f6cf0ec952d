"""A cluster in memory, for tests of what reads clusters: logs that can be cut, expire and vanish.

:class:`MemoryCluster` answers like :class:`tallymark.client.SimpleConsumer`; batches are real ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallymark.client import Fetched, FetchSpec, RecordMetadata
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.client.reading.isolation import Isolation
from tallymark.errors import (
    CODES,
    ConnectError,
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
    LogTruncatedError,
)
from tallymark.protocol.records.batch import Batch, BatchBuilder, Header, split_batches
from tallymark.protocol.topic_partition import TopicPartition


class Told(NamedTuple):
    """One record to append: its stamp (bytes: that very header; None: foreign), timestamp in ms,
    and value."""

    stamp: Stamp | bytes | None
    timestamp: int = 0
    value: bytes = b"value"


@dataclass(slots=True)
class MemoryLog:
    """One partition: whole batches, each with its leader epoch."""

    batches: list[Batch] = field(default_factory=list[Batch])
    epoch: int = 0
    start: int = 0
    open: dict[int, int] = field(default_factory=dict[int, int])
    """First offset of each producer's open transaction."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """Producer, first offset and marker's offset of the transactions that were aborted."""

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.batches[-1].header.next_offset if self.batches else self.start

    def append(self, told: Iterable[Told], producer: int = -1) -> int:
        """Append one batch, in the transaction of ``producer`` if one is given; returns its first
        offset."""
        return self.append_records(
            [(b"k", one.value, _headers(one.stamp), one.timestamp) for one in told], producer
        )

    def append_records(
        self,
        records: Sequence[tuple[bytes | None, bytes | None, Sequence[Header], int]],
        producer: int = -1,
        control: bool = False,
    ) -> int:
        """Append one batch of (key, value, headers, timestamp); returns its first offset."""
        base = self.end
        builder = BatchBuilder()
        for key, value, headers, timestamp in records:
            builder.append(key, value, headers, timestamp)
        data = builder.build(
            base_offset=base,
            leader_epoch=self.epoch,
            producer_id=producer,
            producer_epoch=min(0, producer),
            base_sequence=-1 if control else min(0, producer),
            transactional=producer >= 0,
            control=control,
        )
        self.batches += split_batches(data)
        if producer >= 0 and not control:
            self.open.setdefault(producer, base)
        return base

    def end_transaction(self, producer: int, commit: bool) -> None:
        """Append the marker that ends it."""
        first = self.open.pop(producer)
        key = b"\0\0" + int(commit).to_bytes(2, "big")
        marker = self.append_records([(key, b"", (), 0)], producer, control=True)
        if not commit:
            self.aborted.append((producer, first, marker))

    @property
    def stable(self) -> int:
        """Where the first open transaction begins, else the end."""
        return min(self.open.values(), default=self.end)

    def cut(self, keep: int) -> None:
        """Lose all batches but the first ``keep``, as a broker does that comes back without its
        unflushed tail; what is appended now is of another epoch."""
        del self.batches[keep:]
        self.epoch += 1
        self.open = {one: at for one, at in self.open.items() if at < self.end}
        self.open |= {one: at for one, at, marker in self.aborted if at < self.end <= marker}
        self.aborted = [one for one in self.aborted if one[2] < self.end]

    def expire(self, count: int) -> None:
        """Lose the first ``count`` batches, as retention does."""
        gone = self.batches[:count]
        del self.batches[:count]
        self.start = gone[-1].header.next_offset if gone else self.start

    def damage(self, number: int) -> None:
        """Turn a bit in the batch of that number, so that its CRC does not hold; once more mends
        it."""
        data = bytearray(self.batches[number].data)
        data[-1] ^= 1
        self.batches[number] = Batch(self.batches[number].header, memoryview(bytes(data)))

    def end_of_epoch(self, epoch: int) -> int:
        """Where the records of this epoch and the older ones end."""
        older = [batch.header for batch in self.batches]
        ends = [head.next_offset for head in older if head.partition_leader_epoch <= epoch]
        return max(ends, default=self.start)

    def read(self, offset: int, most: int) -> list[Batch]:
        """Up to ``most`` batches that hold ``offset`` or lie behind it."""
        return [batch for batch in self.batches if batch.header.next_offset > offset][:most]


class MemoryTopic(NamedTuple):
    """A topic, as a Metadata response has it."""

    name: str
    topic_id: uuid.UUID
    partitions: tuple[int, ...]


@dataclass(slots=True)
class MemoryCluster:
    """A cluster to read from, and to send to. ``away``: it cannot be reached. ``at_once``: batches
    in one fetch. Without ``knows_epochs`` it does not notice that a log was cut."""

    logs: dict[TopicPartition, MemoryLog] = field(default_factory=dict[TopicPartition, MemoryLog])
    ids: dict[str, uuid.UUID] = field(default_factory=dict[str, uuid.UUID])
    at_once: int = 2
    away: bool = False
    knows_epochs: bool = True
    hidden: set[str] = field(default_factory=set[str])
    """Topics that the asker may not describe: Kafka leaves them out of a list of all."""

    def log(self, topic: str = "t", partition: int = 0) -> MemoryLog:
        """The log of a partition, made where there is none."""
        self.ids.setdefault(topic, uuid.uuid4())
        return self.logs.setdefault((topic, partition), MemoryLog())

    def topics(self) -> Mapping[str, MemoryTopic]:
        """As SimpleConsumer.topics(); so with the following."""
        self._check()
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.logs):
            if topic not in self.hidden:
                found.setdefault(topic, []).append(partition)
        return {t: MemoryTopic(t, self.ids[t], tuple(parts)) for t, parts in found.items()}

    def topics_named(self, names: Iterable[str]) -> dict[str, MemoryTopic | KafkaError]:
        there = self.topics()
        return {name: there.get(name) or self._why_not(name) for name in names}

    def multifetch(
        self,
        specs: Iterable[FetchSpec],
        *,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation: Isolation | None = None,
    ) -> list[Fetched | KafkaError]:
        """Of committed records, unless it is said otherwise."""
        self._check()
        return [self._fetch(spec, isolation or "read_committed") for spec in specs]

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_offsets: int = 1
    ) -> list[int]:
        log = self._known(topic, partition)
        return [log.start if time == -2 else log.end]

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        for batch in self._known(topic, partition).batches:
            for record in batch.records():
                if record.timestamp >= timestamp:
                    return record.offset
        return None

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        timestamp: int = 0,
        headers: Iterable[Header] = (),
    ) -> Future[RecordMetadata]:
        """As a Producer with ``stamp=False`` sends, delivered at once."""
        self._check()
        record = (key, value, tuple(headers), timestamp)
        offset = self.log(topic, partition).append_records([record])
        future: Future[RecordMetadata] = Future()
        future.set_result(RecordMetadata(topic, partition, offset, timestamp))
        return future

    def close(self) -> None:
        """Nothing to close."""

    def _fetch(self, spec: FetchSpec, isolation: Isolation) -> Fetched | KafkaError:
        topic, partition, offset, epoch = spec
        if topic in self.hidden:
            return self._why_not(topic)
        log = self.logs.get((topic, partition))
        if log is None:
            return KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"{topic}-{partition}")
        if self.knows_epochs and epoch >= 0 and log.end_of_epoch(epoch) < offset:
            return LogTruncatedError(topic, partition, offset, log.end_of_epoch(epoch))
        if not log.start <= offset <= log.end:
            return KafkaError(CODES["OFFSET_OUT_OF_RANGE"], f"{topic}-{partition}")
        stable = log.stable
        end = stable if isolation == "read_committed" else log.end
        batches = [b for b in log.read(offset, self.at_once) if b.header.next_offset <= end]
        for number, batch in enumerate(batches):
            try:
                batch.check_crc()
            except CorruptRecordError as error:
                if not number:
                    end = batch.header.next_offset
                    return CorruptMessageError(topic, partition, offset, error, "", end)
                del batches[number:]
                break
        at = batches[-1].header.next_offset if batches else offset
        last = batches[-1].header.partition_leader_epoch if batches else epoch
        told = [
            AbortedTransaction(*one[:2])
            for one in log.aborted
            if isolation == "read_committed" and one[1] < at and one[2] >= offset
        ]
        kept = committed(batches, told)
        left_out = [batch for batch in batches if batch not in kept]
        found = (log.end, log.start, kept, at, last, stable)
        return Fetched(topic, partition, offset, *found, left_out=left_out)

    def _known(self, topic: str, partition: int) -> MemoryLog:
        self._check()
        if (topic, partition) not in self.logs:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"{topic}-{partition}")
        return self.logs[topic, partition]

    def _why_not(self, topic: str) -> KafkaError:
        hidden = topic in self.hidden
        why = "TOPIC_AUTHORIZATION_FAILED" if hidden else "UNKNOWN_TOPIC_OR_PARTITION"
        return KafkaError(CODES[why], f"topic {topic}")

    def _check(self) -> None:
        if self.away:
            raise ConnectError("memory:9092", "connect", "refused")


def stamped(
    first: int, count: int, timestamp: int = 0, instance: bytes = b"instance", partition: int = 0
) -> list[Told]:
    """Records of server ``web`` with the sequences ``first``, ``first + 1`` ..."""
    return [
        Told(Stamp(instance, partition, sequence, "web"), timestamp)
        for sequence in range(first, first + count)
    ]


def _headers(stamp: Stamp | bytes | None) -> tuple[Header, ...]:
    if stamp is None:
        return ()
    raw: Any = encode_stamp(stamp) if isinstance(stamp, Stamp) else stamp
    return (("tm", raw),)
