"""aiokafka, from PyPI."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from foreign_clients.rows import LINGER_MS, SECONDS, Row


def write(servers: str, topic: str, rows: list[Row], codec: str = "none", **config: Any) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            linger_ms=LINGER_MS,
            **config,
        )
        async with producer:
            sent = [
                await producer.send(topic, value, key, 0, timestamp, headers)
                for key, value, headers, timestamp in rows
            ]
            await asyncio.wait_for(asyncio.gather(*sent), SECONDS)

    asyncio.run(run())


def read(servers: str, topic: str, count: int) -> list[Row]:
    """The whole of partition 0, which must be ``count`` messages."""

    async def run() -> list[Row]:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
        found: list[Row] = []
        async with consumer:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            async with asyncio.timeout(SECONDS):
                while len(found) < count:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        found += [(r.key, r.value, list(r.headers), r.timestamp) for r in records]
            assert await consumer.getmany(timeout_ms=100) == {}
        return found

    return asyncio.run(run())


class Member:
    """See :class:`foreign_clients.group.Member`. It works while its loop runs: in ``poll``."""

    def __init__(self, servers: str, topic: str, runner: asyncio.Runner) -> None:
        self._runner = runner
        runner.run(self._start(servers, topic))

    async def _start(self, servers: str, topic: str) -> None:
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=f"readers-of-{topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
        )
        # It ends when the member has its part, for which others may have to poll first.
        self._started = asyncio.create_task(self._consumer.start())

    def poll(self) -> list[bytes]:
        return self._runner.run(self._poll())

    async def _poll(self) -> list[bytes]:
        await asyncio.wait([self._started], timeout=0.05)
        if not self._started.done():
            return []
        self._started.result()
        found = await self._consumer.getmany(timeout_ms=50)
        return [record.value for records in found.values() for record in records]

    def share(self) -> int:
        return len(self._consumer.assignment())

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
