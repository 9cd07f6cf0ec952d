"""The sparse index from timestamps to offsets.

``%020d.timeindex``, entries of 12 bytes, big-endian, as Kafka's TimeIndex::

    +----------------------+------------------------+
    | timestamp ms (int64) | offset - base  (int32) |   ... ascending in both
    +----------------------+------------------------+

An entry says: this is the greatest timestamp of all records so far, and its batch ends at this
offset. Records may be out of order; the greatest timestamp *so far* is not, so the index can be
searched. To find the first record at or after ``t`` take the greatest entry whose timestamp is not
above ``t``: nothing before its batch qualifies, so read on from there.

The last entry of a finished segment holds the greatest timestamp of the segment. As with the offset
index there is no checksum: only what was flushed is trusted.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from tallymark.log.disk.files import Data
from tallymark.log.segments.offset_index import IndexDamagedError, is_ascending

_ENTRY: Final = struct.Struct(">qi")
ENTRY_SIZE: Final = _ENTRY.size


class TimeIndex:
    """The entries in memory."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def append(self, timestamp: int, relative: int) -> None:
        """Add the greatest timestamp so far; nothing happens where it has not grown."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._offsets.append(relative)
            self._timestamps.append(timestamp)

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, relative offset) of an entry."""
        return self._timestamps[number], self._offsets[number]

    def last(self) -> tuple[int, int] | None:
        """(timestamp, relative offset) of the last entry."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def lookup(self, timestamp: int) -> int:
        """A relative offset; no record of an earlier batch has the timestamp or a later one."""
        number = bisect_right(self._timestamps, timestamp)
        return self._offsets[number - 1] if number else 0

    def before(self, relative: int) -> TimeIndex:
        """A copy with the entries of batches that end before the relative offset."""
        count = bisect_left(self._offsets, relative)
        copy = TimeIndex()
        copy._timestamps, copy._offsets = self._timestamps[:count], self._offsets[:count]
        return copy

    def encode(self, first: int = 0, end: int | None = None) -> bytes:
        """The file's bytes from entry ``first`` to before ``end``."""
        timestamps = self._timestamps[first:end]
        pairs = zip(timestamps, self._offsets[first:end], strict=False)
        return b"".join([_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs])

    @classmethod
    def decode(cls, data: Data) -> TimeIndex:
        """Read a file. IndexDamagedError unless the entries ascend."""
        if len(data) % ENTRY_SIZE:
            raise IndexDamagedError(f"{len(data)} bytes are no whole number of entries")
        index = cls()
        for timestamp, offset in _ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        if not is_ascending(index._timestamps, -(2**63)) or not is_ascending(index._offsets, -1):
            raise IndexDamagedError("the entries do not ascend")
        return index
