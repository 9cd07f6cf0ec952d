"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from foreign_clients.flows.flow import (
    METADATA_AGE_MS,
    PAUSE,
    SESSION_MS,
    SETTLE_SECONDS,
    ThreadedFlow,
)


class Aio(ThreadedFlow):
    def write(self) -> None:
        asyncio.run(self._write())

    def read(self) -> None:
        asyncio.run(self._read())

    async def _write(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.servers,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=SETTLE_SECONDS * 1000,  # for a record it is the delivery timeout
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        async with producer:
            while not self.enough.is_set():
                value = self.journal.next_value()
                sent = await producer.send(self.journal.topic, value.encode(), partition=0)
                sent.add_done_callback(self._settled(value))
                await asyncio.sleep(PAUSE)
            await asyncio.wait_for(producer.flush(), SETTLE_SECONDS)

    def _settled(self, value: str) -> Callable[[asyncio.Future[Any]], None]:
        def done(sent: asyncio.Future[Any]) -> None:
            error = sent.exception()
            offset = None if error else sent.result().offset
            self.journal.settled(value, offset, error)

        return done

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=METADATA_AGE_MS,
        )
        journal, place = self.journal, TopicPartition(self.journal.topic, 0)
        consumer.subscribe([journal.topic], listener=_Listener(self))
        async with consumer:
            while not self.is_over():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    journal.polled((one.offset, one.value.decode()) for one in records)
                await self._commit(consumer, place)
            for _ in range(20):
                if await self._commit(consumer, place):
                    break

    async def _commit(self, consumer: AIOKafkaConsumer, place: TopicPartition) -> bool:
        """False where the coordinator is away."""
        if place not in consumer.assignment():
            return False
        position = await consumer.position(place)
        try:
            await consumer.commit({place: position})
        except KafkaError:
            return False
        self.journal.committed(position)
        return True


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, flow: Aio) -> None:
        self._flow = flow

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Nothing is lost by it: positions are stored after each poll."""

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._flow.journal.assigned()
