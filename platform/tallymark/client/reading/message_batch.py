"""Many messages of one partition as columns, for code that needs no object for each of them.

::

    batch.offsets      1000   1001   1002  ...      a range, mostly
    batch.timestamps   17..   17..   17..
    batch.keys()       b"a"   None   b"b"
    batch.values()     b".."  b".."  b".."
    batch.headers()    (..)   (..)   (..)

Columns are made when they are asked for, anew each time: ask once for each. Iterating makes
messages, a batch of the broker at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from tallymark.client.reading.message import Message
from tallymark.errors import CorruptMessageError, CorruptRecordError
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.columns import RecordColumns, concatenated, joined

Headers = tuple[tuple[str, bytes | None], ...]

_new: Final[Callable[[type[Message], tuple[Any, ...]], Message]] = tuple.__new__


class MessageBatch:
    """Messages of ``topic`` and ``partition`` in the order of the log. ``next_offset`` follows the
    last of them and what was left out behind it; ``last_epoch`` is the leader epoch of the last.
    ``len()`` is their number, ``size`` their bytes, decompressed."""

    __slots__ = ("_parts", "last_epoch", "next_offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int,
        parts: Sequence[tuple[int, RecordColumns]],
        next_offset: int,
        last_epoch: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        self.last_epoch = last_epoch
        self._parts = parts  # the leader epoch and the records of each batch of the broker

    def __len__(self) -> int:
        return sum(len(columns) for _, columns in self._parts)

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return sum(columns.size for _, columns in self._parts)

    @property
    def offsets(self) -> Sequence[int]:
        """Offset of each message."""
        return joined([columns.offsets for _, columns in self._parts])

    @property
    def timestamps(self) -> list[int]:
        """Timestamp of each message, ms since the epoch, UTC."""
        return concatenated([columns.timestamps for _, columns in self._parts])

    def keys(self) -> list[bytes | None]:
        """Key of each message; None for null."""
        return concatenated([columns.keys() for _, columns in self._parts])

    def values(self) -> list[bytes | None]:
        """Value of each message; None for null (a tombstone)."""
        return concatenated([columns.values() for _, columns in self._parts])

    def headers(self) -> list[Headers]:
        """Headers of each message: a tuple of (name, value)."""
        return concatenated([columns.headers() for _, columns in self._parts])

    def messages(self) -> list[Message]:
        """The messages themselves."""
        return list(self)

    def __iter__(self) -> Iterator[Message]:
        for epoch, columns in self._parts:
            yield from messages(self.topic, self.partition, epoch, columns)

    def __repr__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        return f"<MessageBatch of {len(self)} of {where} before offset {self.next_offset}>"


def messages(topic: str, partition: int, epoch: int, columns: RecordColumns) -> Iterator[Message]:
    """The records of one batch as messages. What does not decode raises before the first."""
    return as_messages(
        zip(
            repeat(topic),
            repeat(partition),
            columns.offsets,
            columns.timestamps,
            columns.keys(),
            columns.values(),
            columns.headers(),
            repeat(epoch),
        )
    )


def as_messages(fields: Iterable[tuple[Any, ...]]) -> Iterator[Message]:
    """Messages of their fields: ``Message._make`` for each, without a Python frame."""
    return map(_new, repeat(Message), fields)


def read_columns(
    topic: str, partition: int, batch: Batch, start: int, source: str = ""
) -> RecordColumns:
    """The records of a batch from offset ``start`` on. CorruptMessageError names the place, and
    ``source``, the broker it came from."""
    try:
        columns = batch.columns()
    except CorruptRecordError as error:
        at = max(start, batch.header.base_offset)
        behind = batch.header.next_offset
        raise CorruptMessageError(topic, partition, at, error, source, behind, True) from error
    return columns.since(start) if batch.header.base_offset < start else columns
