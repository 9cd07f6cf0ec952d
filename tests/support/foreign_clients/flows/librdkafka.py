"""confluent-kafka: librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from foreign_clients.flows.flow import (
    METADATA_AGE_MS,
    PAUSE,
    SESSION_MS,
    SETTLE_SECONDS,
    ThreadedFlow,
)


class Librdkafka(ThreadedFlow):
    def write(self) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
            "log_level": 0,
        }
        producer = Producer(config)
        while not self.enough.wait(PAUSE):
            value = self.journal.next_value()
            producer.produce(self.journal.topic, value, partition=0, on_delivery=self._settled)
            producer.poll(0)
        assert producer.flush(SETTLE_SECONDS) == 0, "messages that were never settled"

    def _settled(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        self.journal.settled(value.decode(), message.offset(), error)

    def read(self) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
            "log_level": 0,
        }
        consumer = Consumer(config)
        consumer.subscribe([self.journal.topic], on_assign=lambda *_: self.journal.assigned())
        try:
            while not self.is_over():
                found = [one for one in consumer.consume(500, 0.1) if one.error() is None]
                self.journal.polled((_offset(one), (one.value() or b"").decode()) for one in found)
                self._commit(consumer)
            for _ in range(20):
                if self._commit(consumer):
                    break
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> bool:
        """False where the coordinator is away, or nothing new was read."""
        try:
            for place in consumer.commit(asynchronous=False) or []:
                if place.error is None and place.offset >= 0:
                    self.journal.committed(place.offset)
        except KafkaException:
            return False
        return True


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
