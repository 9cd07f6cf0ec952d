"""Stepping through the batches of a segment file without decoding a record.

There are two ways: :func:`walk` yields whole headers (recovery, replay); :func:`places` yields only
the places of batches, for the search of an offset, and is several times faster. The part of a
batch's header that ``places`` reads (the rest is drawn in
:mod:`tallymark.protocol.records.batch`)::

    position  0             8            12      16      17    21           23
              | base offset | length     | epoch | magic | crc | attributes | last offset delta
              | int64       | int32      | int32 | int8  | u32 | int16      | int32
              27               35
              | base timestamp | max timestamp | ...
              | int64          | int64         |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tallymark.errors import CorruptRecordError
from tallymark.log.disk.files import Handle
from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header

_PLACE: Final = struct.Struct(">qi4xb6xi8xq")
_LENGTH_FROM: Final = 12
"""The length field counts the bytes that follow it."""
_WINDOW: Final = 4096 + HEADER_SIZE
"""One read finds every batch between two entries of the index, when batches are small."""


class BatchPlace(NamedTuple):
    """The position of a batch in its file, and its offsets and times."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Window:
    """Reads a part of a file in chunks and returns views of it."""

    __slots__ = ("_chunk", "_data", "_end", "_handle", "_start")

    def __init__(self, handle: Handle, end: int, chunk: int) -> None:
        self._handle = handle
        self._end = end
        self._chunk = chunk
        self._start = 0
        self._data = memoryview(b"")

    def view(self, position: int, size: int) -> memoryview:
        """``size`` bytes from ``position``, or the fewer there are before the end."""
        at = position - self._start
        if at < 0 or at + size > len(self._data):
            wanted = min(max(size, self._chunk), self._end - position)
            self._data = memoryview(self._handle.pread(max(wanted, 0), position))
            self._start = position
            at = 0
        return self._data[at : at + size]


def header_at(window: Window, position: int) -> BatchHeader | None:
    """The header of the batch at ``position``, None where there cannot be one."""
    data = window.view(position, HEADER_SIZE)
    if len(data) < HEADER_SIZE:
        return None
    try:
        return read_header(data)
    except CorruptRecordError:
        return None


def walk(
    handle: Handle, position: int, end: int, chunk: int = 65536
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of one batch after the other, up to the first that is not whole before
    ``end`` or cannot be one. CRCs are not checked."""
    window = Window(handle, end, chunk)
    while (header := header_at(window, position)) is not None:
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def places(handle: Handle, position: int, end: int, base_offset: int) -> Iterator[BatchPlace]:
    """Places of the batches from ``position``, a start of a batch, up to ``end``, the end of one.

    Raises CorruptRecordError where there is no batch: the position came from a wrong index, or the
    file is damaged. ``base_offset`` is the segment's; no batch begins below it.
    """
    chunk, start = b"", position
    while position < end:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            chunk, start, at = handle.pread(_WINDOW, position), position, 0
            if len(chunk) < HEADER_SIZE:
                raise CorruptRecordError(f"no whole batch at position {position}")
        first, length, magic, delta, max_timestamp = _PLACE.unpack_from(chunk, at)
        size = _LENGTH_FROM + length
        if (
            magic != 2
            or first < base_offset
            or delta < 0
            or not HEADER_SIZE <= size <= end - position
        ):
            raise CorruptRecordError(f"no batch at position {position}")
        yield BatchPlace(position, size, first, first + delta, max_timestamp)
        position += size
