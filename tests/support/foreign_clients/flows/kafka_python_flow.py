"""kafka-python."""

from __future__ import annotations

from typing import Any

from foreign_clients.flows.flow import (
    METADATA_AGE_MS,
    PAUSE,
    SESSION_MS,
    SETTLE_SECONDS,
    ThreadedFlow,
)
from foreign_clients.kafka_python import kafka


class KafkaPython(ThreadedFlow):
    def write(self) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.servers.split(","),
            acks="all",
            enable_idempotence=True,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        while not self.enough.wait(PAUSE):
            value = self.journal.next_value()
            sent = producer.send(self.journal.topic, value.encode(), partition=0)
            sent.add_callback(self._acked, value)
            sent.add_errback(self._failed, value)
        producer.flush(SETTLE_SECONDS)
        producer.close(10)

    def _acked(self, value: str, metadata: Any) -> None:
        self.journal.settled(value, metadata.offset)

    def _failed(self, value: str, error: BaseException) -> None:
        self.journal.settled(value, None, repr(error))

    def read(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.servers.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        journal, place = self.journal, kafka.TopicPartition(self.journal.topic, 0)
        consumer.subscribe([journal.topic], listener=_Listener(self))
        try:
            while not self.is_over():
                for records in consumer.poll(100).values():
                    journal.polled((one.offset, one.value.decode()) for one in records)
                self._commit(consumer, place)
            for _ in range(20):
                if self._commit(consumer, place):
                    break
        finally:
            consumer.close()

    def _commit(self, consumer: Any, place: Any) -> bool:
        """False where the coordinator is away."""
        if place not in consumer.assignment():
            return False
        position = consumer.position(place)
        try:
            consumer.commit()
        except kafka.errors.KafkaError:
            return False
        self.journal.committed(position)
        return True


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, flow: KafkaPython) -> None:
        self._flow = flow

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing is lost by it: positions are stored after each poll."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._flow.journal.assigned()
