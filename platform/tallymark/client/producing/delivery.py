"""What a send gives back: a future of where the record landed.

A batch has one :class:`ProduceResult`, and each of its records a :class:`Delivery` that says which
record of which result is meant: two slots, nothing to settle one by one. So a million records a
second can each have a future; what a future needs beyond that is made when it is used.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

log: Final = logging.getLogger(__name__)

MetadataT = TypeVar("MetadataT")
MetadataT_co = TypeVar("MetadataT_co", covariant=True)


class RecordMetadata(NamedTuple):
    """Where a record is. ``offset`` is -1 when the broker did not say (acks=0). ``timestamp`` is
    the record's, milliseconds since the epoch; the broker's own on a LogAppendTime topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int


_lock: Final = threading.Lock()
"""Held while a result is settled and while a thread begins to wait for one."""


class ProduceResult:
    """What becomes of the records of one batch. Settled once: by :meth:`acknowledged`,
    :meth:`failed`, or by its parts after :meth:`split`.

    ``timestamps`` (ms) are complete when the batch is sealed.
    """

    __slots__ = (
        "_event",
        "_watchers",
        "append_time",
        "base_offset",
        "error",
        "partition",
        "parts",
        "settled",
        "starts",
        "timestamps",
        "topic",
    )

    def __init__(self, topic: str, partition: int, timestamps: Sequence[int] = ()) -> None:
        self.topic = topic
        self.partition = partition
        self.timestamps = timestamps
        self.base_offset = -1
        self.append_time = -1
        self.error: Exception | None = None
        self.settled = False
        self.starts: list[int] | None = None
        """Index of the first record of each part, once it is split."""
        self.parts: list[ProduceResult] = []
        self._event: threading.Event | None = None
        self._watchers: list[Callable[[], object]] | None = None

    def acknowledged(self, base_offset: int, append_time: int = -1) -> None:
        """The records are in the log from ``base_offset`` on (-1: the broker did not say);
        ``append_time`` (ms) is the broker's own time for all of them, -1: theirs count."""
        self.base_offset = base_offset
        self.append_time = append_time
        self._settle()

    def failed(self, error: Exception) -> None:
        """The records are given up."""
        self.error = error
        self._settle()

    def split(self, at: int) -> tuple[ProduceResult, ProduceResult]:
        """From now on two results stand for the records before ``at`` and from it on."""
        first = ProduceResult(self.topic, self.partition, self.timestamps[:at])
        second = ProduceResult(self.topic, self.partition, self.timestamps[at:])
        with _lock:
            self.parts = [first, second]
            self.starts = [0, at]
            event, self._event = self._event, None
            watchers, self._watchers = self._watchers or [], None
        if event is not None:
            event.set()  # a thread that waits looks again, and finds the part to wait for
        for watcher in watchers:  # each looks again too
            watcher()
        return first, second

    def of(self, index: int) -> tuple[ProduceResult, int]:
        """The result that a record belongs to now, and the record's index in it."""
        result = self
        while result.starts is not None:
            part = bisect_right(result.starts, index) - 1
            index -= result.starts[part]
            result = result.parts[part]
        return result, index

    def metadata(self, index: int) -> RecordMetadata:
        """Where an acknowledged record is."""
        offset = -1 if self.base_offset < 0 else self.base_offset + index
        timestamp = self.timestamps[index] if self.append_time < 0 else self.append_time
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is settled or split; False when ``timeout`` seconds have passed."""
        with _lock:
            if self.settled or self.starts is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def watch(self, watcher: Callable[[], object]) -> bool:
        """Have ``watcher`` called once it is settled or split; False: it is already."""
        with _lock:
            if self.settled or self.starts is not None:
                return False
            if self._watchers is None:
                self._watchers = []
            self._watchers.append(watcher)
            return True

    def _settle(self) -> None:
        with _lock:
            self.settled = True
            event, watchers = self._event, self._watchers
            self._event = self._watchers = None
        if event is not None:
            event.set()
        if watchers is not None:
            for watcher in watchers:
                watcher()


class Delivery:
    """The result of one record: ``result(timeout)`` waits for it, ``await`` does in a coroutine.

    It ends with RecordMetadata or with the error that kept the record out of the log (for
    TimedOutError after bytes had left: perhaps did). It cannot be cancelled: once accepted, a
    record is sent. It has the methods of :class:`concurrent.futures.Future`; where one of that
    class itself is needed (``concurrent.futures.wait``), there is :meth:`future`.
    """

    __slots__ = ("_index", "_result")

    def __init__(self, result: ProduceResult, index: int) -> None:
        self._result = result
        self._index = index

    def done(self) -> bool:
        """Whether it has ended."""
        return self._result.of(self._index)[0].settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises what kept it out of the log. TimeoutError after ``timeout``
        seconds; then it is still under way."""
        result, index = self._wait(timeout)
        if result.error is None:
            return result.metadata(index)
        try:
            raise result.error
        finally:
            del result  # or the error's traceback and the result would hold each other

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept the record out of the log; None when nothing did. TimeoutError as above."""
        return self._wait(timeout)[0].error

    def add_done_callback(self, function: Callable[[Delivery], object]) -> None:
        """Have ``function(delivery)`` called when it has ended: at once if it has, else on the
        producer's own thread. What it raises is logged."""

        def look() -> None:
            result, _ = self._result.of(self._index)
            if result.watch(look):
                return
            if not result.settled:  # split in between
                look()
                return
            try:
                function(self)
            except Exception:
                log.exception("a callback of %r failed", self)

        look()

    def future(self) -> Future[RecordMetadata]:
        """The same as a :class:`concurrent.futures.Future`."""
        future: Future[RecordMetadata] = Future()

        self.add_done_callback(lambda ended: settle(future, ended))
        return future

    @property
    def place(self) -> tuple[ProduceResult, int, int]:
        """The batch's result, the record's index in it, and 1 record."""
        return self._result, self._index, 1

    def cancel(self) -> bool:
        """Does nothing, returns False."""
        return False

    def cancelled(self) -> bool:
        """False."""
        return False

    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.done()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self.done():
            return self.result()
        return (yield from asyncio.wrap_future(self.future()).__await__())

    def __repr__(self) -> str:
        result, index = self._result.of(self._index)
        if not result.settled:
            state = "pending"
        else:
            state = repr(result.error) if result.error else str(result.metadata(index))
        return f"<Delivery to {result.topic}-{result.partition}: {state}>"

    def _wait(self, timeout: float | None) -> tuple[ProduceResult, int]:
        result, index = self._result.of(self._index)
        while not result.settled:
            # After a split it is waited for anew, up to twice as long in all: that is rare.
            if not result.wait(timeout):
                raise TimeoutError(f"the record is still under way after {timeout:g} s")
            result, index = result.of(index)
        return result, index


class Ended(Protocol[MetadataT_co]):
    """A delivery, of one record or of many, that has ended."""

    def exception(self) -> Exception | None: ...

    def result(self) -> MetadataT_co: ...


def settle(future: Future[MetadataT], ended: Ended[MetadataT]) -> None:
    """Give the future the outcome of a delivery; nothing if the future was cancelled."""
    error = ended.exception()
    if future.set_running_or_notify_cancel():
        if error is None:
            future.set_result(ended.result())
        else:
            future.set_exception(error)


def failed_delivery(topic: str, error: Exception) -> Delivery:
    """One that has ended already, for a record that no batch took."""
    result = ProduceResult(topic, -1)
    result.failed(error)
    return Delivery(result, 0)


OnDelivery: TypeAlias = Callable[[Exception | None, RecordMetadata | None], object]
"""``on_delivery(error, metadata)``: one of them is None. Called on the producer's I/O thread."""
