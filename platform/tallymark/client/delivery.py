"""What a send gives back: a future of where the record landed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias


class RecordMetadata(NamedTuple):
    """Where a record is. ``offset`` is -1 when the broker did not say (acks=0). ``timestamp`` is
    the record's, milliseconds since the epoch; the broker's own on a LogAppendTime topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int


_lock: Final = threading.Lock()
"""Held while a Delivery gets its condition and while one without a condition is settled."""


class Delivery(Future[RecordMetadata]):
    """The fate of one record: ``result(timeout)`` waits for it, ``await`` does in a coroutine.

    It ends with RecordMetadata or with the error that kept the record out of the log (for
    TimedOutError after bytes had left: perhaps did). It cannot be cancelled: once accepted, a
    record is sent.
    """

    # A Future makes a condition, a lock and two lists: six objects, a third of the time of a
    # send() and most of the work of the garbage collector. Few deliveries are ever looked at
    # before they are settled, so these come when something asks for them. The names are those of
    # concurrent.futures, unchanged since Python 3.2; tests/client/test_delivery.py watches them.
    _state = "PENDING"
    _result: RecordMetadata | None = None
    _exception: BaseException | None = None
    _waiters: list[Any]
    _done_callbacks: list[Callable[[Future[Any]], object]]

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name not in ("_condition", "_waiters", "_done_callbacks"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _lock:
            if "_condition" not in self.__dict__:
                self._waiters = []
                self._done_callbacks = []
                self._condition = threading.Condition()
            return self.__dict__[name]

    def cancel(self) -> bool:
        """Does nothing, returns False."""
        return False

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return asyncio.wrap_future(self).__await__()


def settle(deliveries: Iterable[Delivery], results: Iterable[RecordMetadata | Exception]) -> None:
    """End each delivery with its result; those that somebody waits for wake up."""
    awaited: list[tuple[Delivery, RecordMetadata | Exception]] = []
    with _lock:
        for delivery, result in zip(deliveries, results, strict=False):
            if "_condition" in delivery.__dict__:
                awaited.append((delivery, result))
                continue
            if isinstance(result, Exception):
                delivery._exception = result
            else:
                delivery._result = result
            delivery._state = "FINISHED"
    for delivery, result in awaited:
        with suppress(InvalidStateError):  # its owner has set it; that must not stop the others
            if isinstance(result, Exception):
                delivery.set_exception(result)
            else:
                delivery.set_result(result)


OnDelivery: TypeAlias = Callable[[Exception | None, RecordMetadata | None], object]
"""``on_delivery(error, metadata)``: one of them is None. Called on the producer's I/O thread."""
