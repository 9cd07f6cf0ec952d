"""What send_many gives back: one future for many records."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tallymark.client.producing.delivery import ProduceResult, settle
from tallymark.errors import KafkaError, TimedOutError

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition that follow one another: offsets ``first`` to ``last``, both -1
    when the broker did not say (acks=0)."""

    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """Where ``count`` records are. ``ranges`` are ordered by partition and offset."""

    topic: str
    count: int
    ranges: tuple[OffsetRange, ...]


class BatchDelivery:
    """The result of all records of one send_many: complete when each of theirs is.

    ``result(timeout)`` waits for it, ``await`` does in a coroutine: BatchMetadata, or the first
    error, its text saying how many records it kept out of the log.
    """

    def __init__(self, topic: str, slices: Sequence[tuple[ProduceResult, int, int]]) -> None:
        self._topic = topic
        self._slices = slices
        """ProduceResult, place of the first record in it, number of records."""

    def __len__(self) -> int:
        return sum(count for _, _, count in self._slices)

    def done(self) -> bool:
        """Whether all records have ended."""
        return all(result.settled for result, _, _ in self._parts())

    def result(self, timeout: float | None = None) -> BatchMetadata:
        """Where the records are; raises what kept the first of those that failed out of the log.
        TimeoutError after ``timeout`` seconds; then some are still under way."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return BatchMetadata(self._topic, len(self), tuple(_ranges(self._parts())))

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept records out of the log; None when nothing did. TimeoutError as above."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for one in self._slices:
            while (
                part := next((f for f, _, _ in _parts_of(*one) if not f.settled), None)
            ) is not None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not part.wait(left):
                    raise TimeoutError(f"records are still under way after {timeout:g} s")
        failed = [(result.error, count) for result, _, count in self._parts() if result.error]
        if not failed:
            return None
        return _counted(failed[0][0], sum(count for _, count in failed), len(self))

    def add_done_callback(self, function: Callable[[BatchDelivery], object]) -> None:
        """Have ``function(batch_delivery)`` called once when all have ended, on the producer's
        thread or, if that is now, at once. What it raises is logged."""
        lock, left = threading.Lock(), len(self._slices) + 1

        def one_ended(_: object = None) -> None:
            nonlocal left
            with lock:
                left -= 1
                if left:
                    return
            try:
                function(self)
            except Exception:
                log.exception("a callback of a BatchDelivery to %s failed", self._topic)

        for result, place, count in self._slices:
            self._when_ended(result, place, count, one_ended)
        one_ended()

    def tell(self, on_delivery: OnBatchDelivery) -> None:
        """Have ``on_delivery(error, metadata)`` called when all have ended."""

        def ended(_: BatchDelivery) -> None:
            error = self.exception()
            on_delivery(error, None if error else self.result())

        self.add_done_callback(ended)

    def future(self) -> Future[BatchMetadata]:
        """The same as a :class:`concurrent.futures.Future`."""
        future: Future[BatchMetadata] = Future()

        self.add_done_callback(lambda ended: settle(future, ended))
        return future

    def __await__(self) -> Generator[Any, None, BatchMetadata]:
        return asyncio.wrap_future(self.future()).__await__()

    def _when_ended(
        self, result: ProduceResult, place: int, count: int, ended: Callable[[], None]
    ) -> None:
        """Call ``ended`` when these records of ``result`` have ended, in however many parts."""

        def look() -> None:
            for part, _, _ in _parts_of(result, place, count):
                if not part.settled:
                    if not part.watch(look):
                        look()
                    return
            ended()

        look()

    def _parts(self) -> Iterator[tuple[ProduceResult, int, int]]:
        for result, place, count in self._slices:
            yield from _parts_of(result, place, count)


OnBatchDelivery: TypeAlias = Callable[[Exception | None, BatchMetadata | None], object]
"""``on_delivery(error, metadata)`` of send_many: one of them is None."""


def _parts_of(
    result: ProduceResult, place: int, count: int
) -> Iterator[tuple[ProduceResult, int, int]]:
    while count:
        part, index = result.of(place)
        size = min(count, len(part.timestamps) - index) if result.starts is not None else count
        yield part, index, size
        place += size
        count -= size


def _ranges(parts: Iterator[tuple[ProduceResult, int, int]]) -> list[OffsetRange]:
    found: list[OffsetRange] = []
    known = ((f.partition, f.base_offset + i if f.base_offset >= 0 else -1, n) for f, i, n in parts)
    for partition, first, count in sorted(known):
        last = first + count - 1 if first >= 0 else -1
        if found and found[-1].partition == partition and found[-1].last + (first >= 0) == first:
            before = found.pop()
            first, count = before.first, before.count + count
        found.append(OffsetRange(partition, first, last, count))
    return found


def _counted(error: Exception | None, failed: int, total: int) -> Exception:
    """The error, saying how many it is about. A new one: the old one is other records' too."""
    assert error is not None
    how_many = f"{failed} of {total} records failed"
    if isinstance(error, KafkaError) and type(error) is KafkaError:
        counted: Exception = KafkaError(error.code, f"{how_many}; {error.context}")
    elif isinstance(error, TimedOutError):
        counted = TimedOutError(f"{how_many}; {error}")
    else:
        error.add_note(how_many)
        return error
    counted.__cause__ = error
    return counted
