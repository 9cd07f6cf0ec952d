"""The producer for coroutines: the same core, and no call that blocks the caller's event loop.

::

    async with AsyncProducer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("page-views", b"...", key=b"member-7")
        print(await delivery)

Batching, retries and reports are the background thread's, as with
:class:`~tallymark.client.producing.producer.Producer`. Here is only what waits: for a topic's
partitions, for room in the buffer, for deliveries, for the end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from tallymark.client.aio.buffer_waiters import RoomQueue
from tallymark.client.aio.settings import settings_of
from tallymark.client.aio.transactions import AsyncTransactionCalls
from tallymark.client.core.calls import in_thread, outcome_of, start_thread
from tallymark.client.producing.batch_delivery import BatchDelivery
from tallymark.client.producing.core import ProducerCore
from tallymark.client.producing.delivery import Delivery, OnDelivery, RecordMetadata
from tallymark.client.producing.producer import Producer
from tallymark.client.producing.record_appender import RecordAppender
from tallymark.errors import BufferFullError, ClosedError, TimedOutError
from tallymark.protocol.records.batch import Header

log: Final = logging.getLogger(__name__)

_YIELD_EVERY: Final = 256
"""So many sends that need not wait, and the event loop gets a turn all the same."""


class AsyncProducer(AsyncTransactionCalls):
    """Publishes records to the topics of one cluster, from coroutines of any event loops.

    Takes the settings of :class:`~tallymark.client.producing.producer.Producer`. Encoders and a
    partitioner are called in the event loop and must be quick.

    Cancelling is safe at every ``await``: a :meth:`send` that is cancelled has not taken its record
    in; a record that was taken in is delivered, or its failure is reported, also when the caller is
    cancelled.
    """

    @settings_of(Producer.__init__)
    def __init__(self, **settings: Any) -> None:
        self._blocks = settings.get("on_buffer_full", "block") == "block"
        if self._blocks:  # waited for here, not in a thread
            settings["on_buffer_full"] = "fail"
        self._producer = Producer(**settings)
        self._core: ProducerCore | None = None
        self._room: RoomQueue[Delivery]
        self._closing: Future[None] | None = None
        self._lock = threading.Lock()
        self._since_yield = 0

    @property
    def instance(self) -> bytes:
        """The 8 bytes in every stamp that identify this run of this producer."""
        return self._producer.instance

    @property
    def interceptor_errors(self) -> int:
        """How often an interceptor raised."""
        return self._producer.interceptor_errors

    @property
    def dropped(self) -> int:
        """How many records were dropped for want of room (``on_buffer_full="drop"``)."""
        return self._producer.dropped

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record in; it leaves with its batch. ``await`` the Delivery for its result.

        Arguments and errors are those of :meth:`Producer.send`. While the buffer is full it waits
        (up to ``max_block_ms``), and only this coroutine does: that is the back-pressure. When
        cancelled, the record was not taken in.
        """
        core = self._live()
        self._since_yield += 1
        if self._since_yield >= _YIELD_EVERY:
            self._since_yield = 0
            await asyncio.sleep(0)
        queues = core.topics.get(topic)
        if queues is None or (partition is not None and partition >= len(queues.queues)):
            await self._learn(core, topic)
        if not self._blocks or not self._room.busy:
            if type(headers) is not tuple:
                headers = tuple(headers)  # they may be needed twice
            try:
                return self._producer.send(
                    topic,
                    value,
                    key=key,
                    partition=partition,
                    timestamp=timestamp,
                    headers=headers,
                    on_delivery=on_delivery,
                )
            except BufferFullError:
                if not self._blocks:
                    raise
        attempt = partial(
            self._producer.send,
            topic,
            value,
            key=key,
            partition=partition,
            timestamp=timestamp,
            headers=tuple(headers),
            on_delivery=on_delivery,
        )
        return await self._wait_for_room(core, topic, attempt)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
    ) -> RecordMetadata:
        """Send one record and wait until it is in the log, or raise what kept it out.

        When cancelled, the record may have been taken in, and is delivered then.
        """
        delivery = await self.send(
            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
        )
        return await delivery

    async def send_many(
        self,
        topic: str,
        values: Any,
        *,
        keys: Any = None,
        partition: int | None = None,
        timestamps: Any = None,
        headers: Iterable[Header] = (),
    ) -> BatchDelivery:
        """Take many records in, as :meth:`Producer.send_many`, in a thread: neither the encoding of
        a long column nor the waiting for room holds the event loop. ``await`` the BatchDelivery to
        know where they are.

        When cancelled, none, some or all of the records are taken in.
        """
        core = self._live()
        if topic not in core.topics:
            await self._learn(core, topic)
        kind = _WaitingAppender if self._blocks else RecordAppender
        work = partial(
            kind(core).send_many, topic, values, keys, partition, timestamps, tuple(headers)
        )
        if core.transactions is None:
            return await in_thread("tallymark-producer-many", work)
        with core.transactions.sending("send_many()"):
            return await in_thread("tallymark-producer-many", work)

    async def flush(self, timeout: float | None = None) -> None:
        """Send what lingers and return when everything sent so far is delivered or given up.

        Raises TimedOutError after ``timeout`` seconds saying how much is pending. Nothing is lost
        by that, nor by being cancelled.
        """
        core = self._live()
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wrap_future(core.io.submit(core.flush()))
        except TimeoutError:
            pending = await asyncio.wrap_future(core.io.submit(core.unsettled()))
            if pending:
                raise TimedOutError(
                    f"flush() did not end within {timeout:g} s; {pending} records are not "
                    "delivered yet"
                ) from None

    async def close(self, timeout: float = 30.0) -> None:
        """Deliver what is pending, for at most ``timeout`` seconds, and stop. Calling it again
        waits for the same end and has the same outcome.

        Raises TimedOutError saying how many records were given up, if any were; their Delivery
        has the error too. When cancelled, closing goes on without being waited for.
        """
        with self._lock:
            if self._closing is None:
                self._closing = start_thread(
                    "tallymark-producer-close", lambda: self._producer.close(timeout)
                )
        if self._core is not None:
            self._room.wake_first()  # waiting coroutines are woken one after the other
        await outcome_of(self._closing)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self.close()
            return
        try:
            await self.close()
        except TimedOutError as late:  # the first error is the one to be seen
            log.error("%s", late)

    # -- details ------------------------------------------------------------------------------

    def _live(self) -> ProducerCore:
        """The core of this process (a forked child gets its own), unless it was closed."""
        if self._closing is not None:
            raise ClosedError("the producer has been closed")
        core = self._producer._live()  # pyright: ignore[reportPrivateUsage]
        if core is not self._core:
            self._core, self._room = core, RoomQueue(core.accumulator.buffer, BufferFullError)
        return core

    async def _learn(self, core: ProducerCore, topic: str) -> None:
        """Ask for the topic's partitions, so that the producer need not while it is called."""
        timeout = core.settings.max_block_ms / 1000
        queues = core.topics.get(topic)
        work = core.open_topic(topic, timeout) if queues is None else core.refresh_topic(queues)
        await asyncio.wrap_future(core.io.submit(work))

    async def _wait_for_room(
        self, core: ProducerCore, topic: str, attempt: Callable[[], Delivery]
    ) -> Delivery:
        block = core.settings.max_block_ms / 1000
        try:
            async with asyncio.timeout(block):
                return await self._room.until_it_fits(attempt)
        except TimeoutError:
            buffer = core.accumulator.buffer
            raise TimedOutError(
                f"send to {topic}: no room in the producer's buffer within {block:g} s "
                f"(max_block_ms): {buffer.used} of {buffer.limit} bytes (buffer_memory) wait for "
                "brokers"
            ) from None


class _WaitingAppender(RecordAppender):
    """Waits for room, which its core does not: it runs in a thread of its own."""

    def _block(self) -> float | None:
        return self.core.settings.max_block_ms / 1000
