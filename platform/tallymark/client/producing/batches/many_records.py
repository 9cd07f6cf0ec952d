"""Filling a batch's columns: with one record, or with a stretch of many at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from tallymark.client.producing.batches.batch import NS, ProducerBatch
from tallymark.client.producing.batches.partition_queue import RECORD_OVERHEAD, PartitionQueue
from tallymark.protocol.records.batch import Header
from tallymark.protocol.records.writer import encode_headers
from tallymark.protocol.schema import Buffer

FAR_TIME: Final = 6
"""Bytes that the delta of a given timestamp may take beyond that of the present."""


def put(
    batch: ProducerBatch, key: Buffer | None, value: Buffer | None, headers: bytes | None
) -> None:
    """Put a record into the columns; a column that it is the first to need begins now."""
    _begin_columns(batch, keys=key is not None, headers=headers is not None)
    batch.values.append(_own(value))
    if batch.keys is not None:
        batch.keys.append(_own(key))
    if batch.headers is not None:
        batch.headers.append(encode_headers((), batch.stamped) if headers is None else headers)


class ManyRecords:
    """Records of one topic, column by column: ``values`` and ``keys`` (None: no record has one) as
    bytes, ``timestamps`` in ms (None: now), the same ``headers`` for all."""

    def __init__(
        self,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        timestamps: Sequence[int] | None,
        headers: Sequence[Header],
    ) -> None:
        self.values = values
        self.keys = keys
        self.timestamps = timestamps
        self.headers = headers
        self._own_bytes = FAR_TIME if timestamps is not None else 0
        if headers:
            self._own_bytes += len(encode_headers(headers, 1))  # also says whether they are any

    def __len__(self) -> int:
        return len(self.values)

    def need(self, index: int, queue: PartitionQueue, stamped: bool) -> int:
        """Bytes that a record takes at most in a batch of ``queue``."""
        sums = self._sums
        return sums[index + 1] - sums[index] + self._fixed(queue, stamped)

    def fitting(
        self, start: int, most: int, room: int, queue: PartitionQueue, stamped: bool
    ) -> tuple[int, int]:
        """How many records from ``start`` on fit into ``room`` bytes, at least one and at most
        ``most``; and the bytes they take."""
        fixed, sums = self._fixed(queue, stamped), self._sums
        begin = sums[start]

        def size(count: int) -> int:
            return sums[start + count] - begin + count * fixed

        if size(most) <= room:
            return most, size(most)
        # If all are like the first, it is this many, and most often they are.
        count = max(1, min(most - 1, room // size(1)))
        if count == most or not size(count) <= room < size(count + 1):
            count = max(1, bisect_right(range(1, most + 1), room, key=size))
        return count, size(count)

    def put(self, batch: ProducerBatch, start: int, count: int, clock: Callable[[], int]) -> None:
        """Put ``count`` records from ``start`` on into the columns of ``batch``."""
        chosen = slice(start, start + count)
        _begin_columns(batch, keys=self.keys is not None, headers=bool(self.headers))
        batch.known += count
        batch.known_payload += self._sums[start + count] - self._sums[start]
        batch.values += self.values[chosen]
        if batch.keys is not None:
            batch.keys += [None] * count if self.keys is None else self.keys[chosen]
        if batch.headers is not None:
            batch.headers += [encode_headers(self.headers, batch.stamped)] * count
        if self.timestamps is None:
            batch.times += [clock()] * count
        else:
            batch.times += [time * NS for time in self.timestamps[chosen]]

    def take(self, indexes: Sequence[int]) -> ManyRecords:
        """Some of the records, in the order of ``indexes``."""
        return ManyRecords(
            [self.values[index] for index in indexes],
            None if self.keys is None else [self.keys[index] for index in indexes],
            None if self.timestamps is None else [self.timestamps[index] for index in indexes],
            self.headers,
        )

    def _fixed(self, queue: PartitionQueue, stamped: bool) -> int:
        return RECORD_OVERHEAD + self._own_bytes + (queue.stamp_size if stamped else 0)

    @cached_property
    def _sums(self) -> list[int]:
        """Bytes of the keys and values before each record."""
        sizes = _lengths(self.values)
        if self.keys is not None:
            sizes = [one + two for one, two in zip(sizes, _lengths(self.keys), strict=True)]
        return list(accumulate(sizes, initial=0))


def _lengths(column: Sequence[Buffer | None]) -> list[int]:
    try:
        return list(map(len, column))  # type: ignore[arg-type] # a None among them is the TypeError
    except TypeError:
        return [0 if one is None else len(one) for one in column]


def _begin_columns(batch: ProducerBatch, keys: bool, headers: bool) -> None:
    place = len(batch.values)
    if keys and batch.keys is None:
        none: list[Buffer | None] = [None] * place
        batch.keys = none
        batch.plain = False
    if headers and batch.headers is None:
        batch.headers = [encode_headers((), batch.stamped)] * place
        batch.plain = False


def _own(data: Buffer | None) -> Buffer | None:
    """What its owner cannot change until it is encoded."""
    return bytes(data) if isinstance(data, bytearray) else data
