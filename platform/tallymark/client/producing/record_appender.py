"""How records get from a call of the producer into batches, in the thread that calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tallymark.client.producing.arguments import (
    check_headers,
    check_on_delivery,
    check_partition,
    check_timestamp,
    check_topic,
)
from tallymark.client.producing.batch_delivery import BatchDelivery
from tallymark.client.producing.batches.accumulator import NO_WAIT
from tallymark.client.producing.batches.many_records import ManyRecords
from tallymark.client.producing.batches.partition_queue import (
    PartitionQueue,
    TopicQueues,
)
from tallymark.client.producing.batches.send_many import Filler
from tallymark.client.producing.core import ProducerCore
from tallymark.client.producing.delivery import Delivery, OnDelivery, failed_delivery
from tallymark.client.producing.encoders import (
    as_list,
    encoded_column,
    encoded_value,
    timestamp_column,
)
from tallymark.client.producing.interceptors.queue_interceptor import OutgoingRecord
from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark.errors import CODES, BufferFullError, ClosedError, KafkaError, RecordDroppedError
from tallymark.protocol.records.batch import Header
from tallymark.protocol.schema import Buffer


class RecordAppender:
    """Encodes, chooses partitions, and waits for what is missing, for one core of a producer."""

    def __init__(self, core: ProducerCore) -> None:
        self.core = core
        settings = core.settings
        self._partitioner = settings.partitioner
        self._key_encoder = settings.key_encoder
        self._value_encoder = settings.value_encoder
        self._drops = settings.on_buffer_full == "drop"

    def send(self, record: OutgoingRecord, on_delivery: OnDelivery | None = None) -> Delivery:
        """Take one record in. See :meth:`tallymark.client.producing.producer.Producer.send`."""
        core, stages = self.core, self.core.stages
        if on_delivery is not None:
            check_on_delivery(on_delivery)
        if record.partition is not None:
            check_partition(record.partition)
        if stages.records:
            admitted = stages.admit(record)
            if admitted is None:
                error = RecordDroppedError(f"an interceptor dropped a record for {record.topic}")
                return _not_taken(record.topic, error, on_delivery)
            record = admitted
        topic, timestamp = record.topic, record.timestamp
        key, value = record.key, record.value
        if key is not None:
            key = encoded_value("key", topic, key, self._key_encoder)
        if value is not None:
            value = encoded_value("value", topic, value, self._value_encoder)
        if timestamp is not None:
            check_timestamp(timestamp)
        queues = core.topics.get(topic) or self._open_topic(topic)
        queue = self._choose(queues, key, record.partition)
        try:
            delivery = core.accumulator.append(
                queue,
                key,
                value,
                _headers(queues, record.headers),
                timestamp,
                stamped=queues.stamped,
                on_delivery=on_delivery,
                block=self._block(),
            )
        except BufferFullError as error:
            if not self._drops:
                raise
            core.drop(1)
            delivery = _not_taken(topic, error, on_delivery)
            stages.refused(record, delivery, error)
            return delivery
        if stages.records:
            stages.enqueued(record, delivery, queue.partition)
        return delivery

    def send_many(
        self,
        topic: str,
        values: Any,
        keys: Any,
        partition: int | None,
        timestamps: Any,
        headers: Iterable[Header],
    ) -> BatchDelivery:
        """Take columns in. See :meth:`tallymark.client.producing.producer.Producer.send_many`."""
        core = self.core
        columns = [as_list(values), None if keys is None else as_list(keys)]
        count = len(columns[0] or ())
        times = timestamp_column(timestamps, count)
        for name, column in (("keys", columns[1]), ("timestamps", times)):
            if column is not None and len(column) != count:
                raise ValueError(f"{count} values and {len(column)} {name}")
        kept = tuple(headers)
        if core.stages.records:
            return self._one_by_one(topic, columns[0] or [], columns[1], partition, times, kept)
        encoded = encoded_column("value", topic, columns[0], self._value_encoder)
        key_bytes = columns[1] and encoded_column("key", topic, columns[1], self._key_encoder)
        queues = core.topics.get(topic) or self._open_topic(topic)
        records = ManyRecords(encoded, key_bytes or None, times, _headers(queues, kept))
        filler = Filler(core.accumulator, queues, self._block(), self._drops)
        queue = None if partition is None else self._choose(queues, None, partition)
        filler.fill(records, queue, self._choice(queues, keyed=key_bytes is not None))
        if filler.dropped:
            core.drop(filler.dropped)
        return BatchDelivery(topic, filler.slices)

    def _one_by_one(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        partition: int | None,
        times: Sequence[int] | None,
        headers: tuple[Header, ...],
    ) -> BatchDelivery:
        """For interceptors that observe, change or drop single records."""
        deliveries = [
            self.send(
                OutgoingRecord(
                    topic,
                    value,
                    keys[index] if keys else None,
                    partition,
                    times[index] if times else None,
                    headers,
                )
            )
            for index, value in enumerate(values)
        ]
        return BatchDelivery(topic, [delivery.place for delivery in deliveries])

    def _choice(
        self, queues: TopicQueues, keyed: bool
    ) -> Callable[[bytes | None], PartitionQueue] | None:
        """How partitions of records that name none are chosen; None: they stick, batch by batch."""
        if not keyed and self._partitioner is None:
            return None
        return partial(self._choose, queues, partition=None)

    def _choose(
        self, topic: TopicQueues, key: Buffer | None, partition: int | None
    ) -> PartitionQueue:
        core = self.core
        if partition is None:
            if self._partitioner is None:
                return topic.choose(None if key is None else bytes(key))
            numbers = range(len(topic.queues))
            partition = self._partitioner(topic.name, None if key is None else bytes(key), numbers)
        if partition >= len(topic.queues) and not core.io.is_current:
            core.io.run(core.refresh_topic(topic), what=f"metadata of {topic.name}")
        if not 0 <= partition < len(topic.queues):
            raise KafkaError(
                CODES["UNKNOWN_TOPIC_OR_PARTITION"],
                f"{topic.name}-{partition} (the topic has {len(topic.queues)} partitions)",
            )
        return topic.queues[partition]

    def _open_topic(self, topic: str) -> TopicQueues:
        check_topic(topic)
        core = self.core
        if core.accumulator.closed and core.accumulator.failure is None:
            raise ClosedError("the producer has been closed")
        timeout = core.settings.max_block_ms / 1000
        return core.io.run(core.open_topic(topic, timeout), what=f"send to new topic {topic}")

    def _block(self) -> float | None:
        """How long a record waits for room; :meth:`Accumulator.append` has the meanings."""
        core = self.core
        if core.settings.on_buffer_full != "block":
            return NO_WAIT
        # A callback runs in the I/O thread, which alone makes room: it must not wait for that.
        return None if core.io.is_current else core.settings.max_block_ms / 1000


def _headers(queues: TopicQueues, headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """A record read elsewhere and sent on is a new message of ours: without the old stamp."""
    if headers:
        check_headers(headers)
    if queues.stamped and headers:
        return tuple(header for header in headers if header[0] != STAMP_HEADER)
    return headers


def _not_taken(topic: str, error: Exception, on_delivery: OnDelivery | None) -> Delivery:
    if on_delivery is not None:
        on_delivery(error, None)
    return failed_delivery(topic, error)
