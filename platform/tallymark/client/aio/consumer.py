"""The consumer of a group for coroutines: ``async for`` over a :class:`ConsumerConnector`.

::

    async with AsyncConsumer(group="mail", bootstrap_servers="127.0.0.1:9092").subscribe(
        "clicks"
    ) as consumer:
        async for message in consumer:
            await handle(message)
            await consumer.commit()

Everything that decides is the connector's: groups, rebalances, offsets, fetching. Its calls may
block, so one thread makes them (:mod:`.executor`); it takes up to ``max_poll_records`` messages
at once, which are then handed out without any waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tallymark.client.aio.executor import SingleThreadExecutor
from tallymark.client.aio.for_transactions import AsyncForTransactions
from tallymark.client.aio.settings import settings_of
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.consuming.stream import Stream
from tallymark.client.core.calls import outcome_of, start_thread
from tallymark.client.reading.message import Message
from tallymark.client.reading.message_batch import MessageBatch
from tallymark.errors import ClosedError, CommitFailedError, TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

_YIELD_EVERY: Final = 256
"""So many messages without waiting, and the event loop gets a turn all the same."""
_POLL_S: Final = 0.25
"""The longest that commit() or seek() waits for an iteration that waits for messages."""


class AsyncConsumer(AsyncForTransactions):
    """One consumer of a group. Takes the settings of
    :class:`~tallymark.client.connector.connector.ConsumerConnector`; its hooks are called in
    threads.

    Cancelling is safe at every ``await``: a message that was not handed out is handed out next, or
    comes again; a commit that is cancelled was made or not. An error in the background is raised by
    the next call of anything.

    What may come again after a crash or a rebalance is, at least once, what was handed out since
    the last commit: without :meth:`commit`, up to ``max_poll_records`` messages more than with a
    stream of the connector.
    """

    @settings_of(ConsumerConnector.__init__)
    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._subscription: tuple[tuple[str, ...], str | None, str | None] | None = None
        self._max_poll_records = 500
        self._worker = SingleThreadExecutor(f"consumer {settings.get('group', '')}")
        self._lock = threading.Lock()
        self._starting: Future[tuple[ConsumerConnector, Stream]] | None = None
        self._closing: Future[None] | None = None
        self._polling: Future[None] | None = None
        self._columns: bool | None = None
        """Whether batches are taken, or messages; None: neither yet."""
        self._waiting: deque[Any] = deque()
        self._batch: Sequence[Any] = ()
        self._done: dict[TopicPartition, int] = {}
        self._since_yield = 0

    def subscribe(
        self,
        *topics: str,
        pattern: str | None = None,
        deny: str | None = None,
        max_poll_records: int = 500,
    ) -> Self:
        """What to consume: these topics, or all those, present and future, whose whole name
        matches the regular expression ``pattern`` and not ``deny``. Once, before the start."""
        if bool(topics) == bool(pattern):
            raise UserError("subscribe() takes topics or a pattern", "give one of them")
        if max_poll_records < 1:
            raise UserError(f"max_poll_records={max_poll_records} is not possible", "1 or more")
        if self._subscription is not None:
            raise UserError("this consumer has subscribed already", "make another AsyncConsumer")
        self._subscription = (topics, pattern, deny)
        self._max_poll_records = max_poll_records
        return self

    async def start(self) -> None:
        """Join the group and wait for the first division of partitions (``start_timeout_ms``).
        Again does nothing. When cancelled, what was begun is closed.

        Raises as ConsumerConnector() does.
        """
        with self._lock:
            if self._closing is not None:
                raise ClosedError("the consumer has been closed")
            if self._starting is None:
                self._starting = start_thread("tallymark-consumer-start", self._connect)
            starting = self._starting
        if starting.done():
            starting.result()
            return
        try:
            await outcome_of(starting)
        except asyncio.CancelledError:
            self._close_soon(10.0, True)
            raise

    async def __anext__(self) -> Message:
        """The next message; waits while there is none. StopAsyncIteration after :meth:`close`."""
        self._since_yield += 1
        if self._since_yield >= _YIELD_EVERY:
            self._since_yield = 0
            await asyncio.sleep(0)
        message: Message
        try:
            if self._columns is False:
                message = self._waiting.popleft()
                return message
        except IndexError:
            pass
        message = await self._next(columns=False)
        return message

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def batches(self) -> AsyncIterator[MessageBatch]:
        """The same as columns, of one partition at a time: what has come, about 1 MB at most. A
        consumer gives either messages or batches (UserError)."""
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield await self._next(columns=True)

    @property
    def assignment(self) -> dict[str, tuple[int, ...]]:
        """The partitions this consumer owns now, by topic."""
        return self._connector().assignment

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store, for every owned partition, the offset after the last message handed out: all of
        those are dealt with. Or just the given ``{(topic, partition): next offset}``.

        Errors as :meth:`ConsumerConnector.commit_offsets`.
        """
        connector = self._connector()
        if offsets is None:
            await self._call(self._commit_handed_out)
        else:
            await self._call(lambda: connector.commit_offsets(offsets))

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at ``offset`` of a partition that this consumer owns: the next message of it is
        from there. Errors as :meth:`ConsumerConnector.seek`."""
        connector = self._connector()

        def move() -> None:
            connector.seek(topic, partition, offset)
            self._moved({(topic, partition): offset})

        await self._call(move)

    async def rewind(self, **goal: Any) -> dict[TopicPartition, int]:
        """:meth:`seek` in all owned partitions; see :meth:`ConsumerConnector.rewind`."""
        connector = self._connector()

        def move() -> dict[TopicPartition, int]:
            moved = connector.rewind(**goal)
            self._moved(moved)
            return moved

        return await self._call(move)

    async def close(self, timeout: float = 10.0) -> None:
        """Store offsets (with auto-commit), leave the group, end the iteration; at most ``timeout``
        seconds for leaving in order. Again waits for the same end. When cancelled, closing goes on
        without being waited for."""
        await outcome_of(self._close_soon(timeout, True))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await outcome_of(self._close_soon(10.0, kind is None))

    # -- details: in the caller's event loop ---------------------------------------------------

    def _take(self, columns: bool) -> None:
        if self._columns not in (columns, None):
            raise UserError("messages and batches of one consumer are mixed", "take either")
        self._columns = columns

    async def _next(self, columns: bool) -> Any:
        self._take(columns)
        while True:
            try:
                return self._waiting.popleft()
            except IndexError:
                try:
                    await self._fill()
                except ClosedError:
                    raise StopAsyncIteration from None

    async def _fill(self) -> None:
        """Wait until messages are there, or a while has passed. A caller that is cancelled
        meanwhile leaves them to the next one."""
        with self._lock:
            if self._polling is None or self._polling.done():
                _, stream = self._parts()
                self._polling = self._worker.submit(lambda: self._poll(stream))
            polling = self._polling
        await outcome_of(polling)

    async def _call(self, function: Callable[[], T]) -> T:
        return await outcome_of(self._worker.submit(function))

    def _connector(self) -> ConsumerConnector:
        return self._parts()[0]

    def _parts(self) -> tuple[ConsumerConnector, Stream]:
        if self._closing is not None:
            raise ClosedError("the consumer has been closed")
        if self._starting is None or not self._starting.done():
            raise UserError("this consumer was not started", "use 'async with', or await start()")
        return self._starting.result()

    def _close_soon(self, timeout: float, dealt_with: bool) -> Future[None]:
        with self._lock:
            if self._closing is None:
                self._closing = start_thread(
                    "tallymark-consumer-close", lambda: self._shut_down(timeout, dealt_with)
                )
            return self._closing

    # -- details: in threads ---------------------------------------------------------------------

    def _connect(self) -> tuple[ConsumerConnector, Stream]:
        if self._subscription is None:
            raise UserError("this consumer consumes nothing", "call subscribe() first")
        topics, pattern, deny = self._subscription
        connector = ConsumerConnector(**self._settings)
        try:
            if pattern is None and len(topics) == 1:
                return connector, connector.create_message_streams({topics[0]: 1})[topics[0]][0]
            names = pattern or "|".join(topic.replace(".", r"\.") for topic in topics)
            return connector, connector.create_message_streams_by_filter(names, 1, deny=deny)[0]
        except BaseException:
            connector.shutdown()
            raise

    def _poll(self, stream: Stream) -> None:
        """Ask for more when all was handed out, not before: asking says that it is dealt with."""
        if self._waiting:
            return
        self._settle_batch(len(self._batch))
        self._note_group(self._connector())
        found: Sequence[Any]
        if self._columns:
            batch = stream.poll_batch(_POLL_S)
            found = [] if batch is None else [batch]
        else:
            found = stream.poll(_POLL_S, self._max_poll_records)
        self._batch = found
        self._waiting.extend(found)

    def _settle_batch(self, count: int) -> None:
        """The first ``count`` of what was taken were handed out."""
        if self._columns:
            self._done.update({(b.topic, b.partition): b.next_offset for b in self._batch[:count]})
        else:
            self._done.update({(m[0], m[1]): m[2] + 1 for m in self._batch[:count]})
        self._batch = self._batch[count:]

    def _commit_handed_out(self) -> None:
        self._settle_batch(len(self._batch) - len(self._waiting))
        self._store(self._connector())

    def _store(self, connector: ConsumerConnector) -> None:
        owned = {(topic, p) for topic, numbers in connector.assignment.items() for p in numbers}
        offsets = {place: offset for place, offset in self._done.items() if place in owned}
        if offsets:
            connector.commit_offsets(offsets)
        self._done = {}

    def _moved(self, places: Mapping[TopicPartition, int]) -> None:
        """What waits of these partitions is of their old positions."""
        waiting = self._drain()
        self._settle_batch(len(self._batch) - len(waiting))
        self._done.update(places)
        self._batch = [item for item in waiting if (item.topic, item.partition) not in places]
        self._waiting.extend(self._batch)

    def _drain(self) -> list[Any]:
        """Take all that waits. An iteration may take messages meanwhile: each goes to one of us."""
        taken: list[Any] = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self._waiting.popleft())
        return taken

    def _shut_down(self, timeout: float, dealt_with: bool) -> None:
        try:
            if self._starting is None:
                return
            try:
                connector, _ = self._starting.result()
            except BaseException:
                return  # start() has raised it
            try:
                self._leave(connector, dealt_with)
            except TallymarkError as error:
                log.warning(
                    "consumer %s leaves without having stored all: %s", connector.group, error
                )
            finally:
                connector.shutdown(timeout)
        finally:
            self._worker.stop()

    def _leave(self, connector: ConsumerConnector, dealt_with: bool) -> None:
        """Report to the connector what was really handed out: it counts what waits here, too."""
        waiting = self._drain()
        count = len(self._batch) - len(waiting)
        if self._settings.get("delivery") == "at_most_once":
            first = {(item.topic, item.partition): item for item in reversed(waiting)}
            for (topic, partition), item in first.items():
                with contextlib.suppress(CommitFailedError):  # not ours any more
                    offset = item.offsets[0] if self._columns else item.offset
                    connector.seek(topic, partition, offset)
        elif self._settings.get("enable_auto_commit", True):
            # The last message is not dealt with when an exception left the block.
            self._settle_batch(count if dealt_with else max(0, count - 1))
            self._store(connector)
