"""Records of several partitions, merged in the order of their timestamps."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallymark.cli.messages.reading.reader import OnGap, Piece, SpanReader, Stopped, refuse_gap
from tallymark.cli.messages.reading.spans import Span
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.protocol.records.batch import Record


class Placed(NamedTuple):
    """A record and where it was read."""

    span: Span
    record: Record


class Merge:
    """Pieces in, records out: by timestamp across partitions, by offset within each. Pure.

    A record is given out when every partition that is not at its end has one waiting, so at most
    ``limit`` records of each wait (one piece more); a partition that has none for the moment holds
    the others back only until :meth:`drain`.
    """

    def __init__(self, spans: Sequence[Span], limit: int = 10_000) -> None:
        self._waiting: dict[int, deque[Record]] = {index: deque() for index in range(len(spans))}
        self._spans = spans
        self._index = {id(span): index for index, span in enumerate(spans)}
        self._heads: list[tuple[int, int]] = []
        self._limit = limit

    def add(self, piece: Piece) -> None:
        """Records to come."""
        index = self._index[id(piece.span)]
        waiting = self._waiting[index]
        if not waiting and piece.records:
            heapq.heappush(self._heads, (piece.records[0].timestamp, index))
        waiting.extend(piece.records)

    def thirsty(self) -> list[Span]:
        """The partitions to read from: those with less waiting than the limit."""
        return [
            span
            for index, span in enumerate(self._spans)
            if not span.done and len(self._waiting[index]) < self._limit
        ]

    def ready(self) -> Iterator[Placed]:
        """The records that can be given out."""
        while self._heads and not any(
            not waiting and not self._spans[index].done for index, waiting in self._waiting.items()
        ):
            yield self._next()

    def drain(self) -> Iterator[Placed]:
        """All that wait; used when no older record is on its way."""
        while self._heads:
            yield self._next()

    def _next(self) -> Placed:
        _, index = heapq.heappop(self._heads)
        waiting = self._waiting[index]
        record = waiting.popleft()
        if waiting:
            heapq.heappush(self._heads, (waiting[0].timestamp, index))
        return Placed(self._spans[index], record)


def read_merged(
    consumer: SimpleConsumer, spans: Sequence[Span], stop: Stopped, on_gap: OnGap = refuse_gap
) -> Iterator[Placed | None]:
    """The records of all spans, merged; None when there was nothing new. Errors as of
    :class:`~tallymark.cli.messages.reading.reader.SpanReader`."""
    reader = SpanReader(consumer, on_gap=on_gap)
    merge = Merge(spans)
    while not stop.is_set() and not all(span.done for span in spans):
        pieces = reader.round(merge.thirsty())
        for piece in pieces:
            merge.add(piece)
        yield from merge.ready() if pieces else merge.drain()
        if not pieces:
            yield None
    yield from merge.drain()
