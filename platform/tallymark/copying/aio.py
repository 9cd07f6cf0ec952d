"""Consume, transform, produce, for coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from tallymark.client import AsyncConsumer, AsyncProducer, OutgoingRecord
from tallymark.client.reading.message import Message
from tallymark.copying.machine import STEP_SECONDS, CopyMachine, Steps, Taken
from tallymark.copying.transforming import Transform
from tallymark.errors import CommitFailedError
from tallymark.protocol.topic_partition import TopicPartition

T = TypeVar("T")
AsyncTransform: TypeAlias = Callable[[Message], Awaitable[Iterable[OutgoingRecord]]]
"""As :data:`~tallymark.copying.Transform`, awaited."""


class AsyncCopier:
    """As :class:`~tallymark.copying.Copier`, for one task at a time. ``transform`` may be a
    coroutine function.

    ``consumer`` has ``enable_auto_commit=False`` and ``isolation="read_committed"``, has subscribed
    to nothing and is not started: the first step does both, when the producer has ended what the
    last one of its id left open. Both are closed by their owner, the producer first.

    A step may be cancelled: its transaction is aborted, or, where the commit was asked for, is
    committed by the next step, before that takes messages. Without a next step the producer's
    ``close()`` aborts an open transaction; a commit that was cancelled may be done.

    The first step raises UserError for a consumer that does not fit, LocalProtocolError for a
    producer without transactions.
    """

    def __init__(
        self,
        consumer: AsyncConsumer,
        producer: AsyncProducer,
        topics: str | Sequence[str],
        transform: Transform | AsyncTransform,
        *,
        max_records: int = 750,
    ) -> None:
        end = _Consumer(consumer, max_records)
        self._machine = CopyMachine(end, producer, topics, transform, max_records)

    async def run(self, stop: asyncio.Event, *, patience: float = 300.0) -> int:
        """See :meth:`Copier.run() <tallymark.copying.Copier.run>`."""

        async def pause(seconds: float) -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await stop.wait()

        return await carry_out(self._machine.run(stop.is_set, pause, time.monotonic, patience))

    async def step(self, timeout: float = STEP_SECONDS) -> int:
        """See :meth:`Copier.step() <tallymark.copying.Copier.step>`; waits up to 0.25 s longer than
        ``timeout``."""
        return await carry_out(self._machine.step(timeout))


async def carry_out(steps: Steps[T]) -> T:
    """Await what the machine yields, and let it go on with the result or the error."""
    try:
        found = next(steps)
        while True:
            try:
                result: Any = await found if isawaitable(found) else found
            except BaseException as error:
                found = steps.throw(error)
            else:
                found = steps.send(result)
    except StopIteration as end:
        returned: T = end.value
        return returned


class _Consumer:
    """See :class:`~tallymark.copying.machine.ConsumerEnd`."""

    def __init__(self, consumer: AsyncConsumer, most: int) -> None:
        self._consumer = consumer
        self._most = most
        self._subscribed = False
        self.processed = consumer.processed

    async def start(self, topics: Sequence[str]) -> None:
        if not self._subscribed:
            self._consumer.subscribe(*topics, max_poll_records=self._most)
            self._subscribed = True
        await self._consumer.start()
        await self._consumer.check_transactional()

    async def take(self, timeout: float, most: int) -> Taken:
        messages = await self._consumer.poll(timeout, most)
        try:
            return self._consumer.group_metadata(), messages  # of before these messages
        except CommitFailedError:
            return None, messages

    async def rewind_to_committed(self, first: Mapping[TopicPartition, int]) -> None:
        await self._consumer.rewind_to_committed(first)
