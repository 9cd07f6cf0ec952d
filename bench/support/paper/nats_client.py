"""nats-py: JetStream's Python client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from support.paper.meter import PREFETCH, SURPLUS_SECONDS, Job, Meter

_PATIENCE: Final = 60.0
_WINDOW: Final = 5000
"""Messages that were sent and are not acknowledged yet."""


def nats_produce(job: Job, meter: Meter) -> None:
    """Publishes to a stream in files, whose acknowledgements are awaited in a window."""
    asyncio.run(_connected(job, meter, _produce))


def nats_consume(job: Job, meter: Meter) -> None:
    """A pull consumer without acknowledgements, 1,000 messages a pull."""
    asyncio.run(_connected(job, meter, _consume))


async def _connected(
    job: Job, meter: Meter, run: Callable[[Any, Job, Meter], Awaitable[None]]
) -> None:
    import nats

    connection = await nats.connect(f"nats://{job['address']}")
    try:
        await run(connection, job, meter)
    finally:
        await connection.close()


async def _produce(connection: Any, job: Job, meter: Meter) -> None:
    stream = connection.jetstream(publish_async_max_pending=2 * _WINDOW)
    topic, value, size = job["topic"], b"x" * job["size"], job["size"]
    await stream.add_stream(name=topic, subjects=[topic], storage="file")
    meter.begin()
    waiting: list[Any] = []
    for part in meter.parts():
        for _ in range(part):
            waiting.append(await stream.publish_async(topic, value))
            if len(waiting) == _WINDOW:
                # Half of the window is still under way while the other half is awaited.
                for each in waiting[: _WINDOW // 2]:
                    await each
                del waiting[: _WINDOW // 2]
        meter.add(part, part * size)
    for each in waiting:
        await each
    meter.end()


async def _consume(connection: Any, job: Job, meter: Meter) -> None:
    from nats.errors import TimeoutError as NoMessage
    from nats.js.api import AckPolicy, ConsumerConfig

    stream = connection.jetstream()
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    consumer = await stream.pull_subscribe(job["topic"], config=config)
    meter.begin()
    while not meter.done:
        messages = await consumer.fetch(min(PREFETCH, meter.count - meter.messages), _PATIENCE)
        meter.add(len(messages), sum(len(each.data) for each in messages))
    with suppress(NoMessage):
        meter.add(len(await consumer.fetch(1, SURPLUS_SECONDS)), 0)
