"""The sparse index from offsets to file positions: one entry for about 4 KiB of log.

``%020d.index``, entries of 8 bytes, big-endian, as Kafka's OffsetIndex::

    +------------------------+------------------+
    | offset - base  (int32) | position (int32) |   ... ascending in both
    +------------------------+------------------+

``base`` is the number in the file's name. An entry says: the batch whose *last* offset is this one
begins at this position. To find offset ``o`` take the greatest entry not above it and read batch by
batch from its position on. Example with base 100, batches 100..109 at 0, 110..119 at 3000, 120..149
at 6000: the entry (49, 6000) is written with the third batch, as 6000 bytes came before it; 120 is
found from position 0, 149 and whatever follows from position 6000.

There is no checksum, and the file is written some time after the log itself. It is trusted only for
what was flushed; after a crash the index of newer batches is built again from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from tallymark.log.disk.files import Data

ENTRY_SIZE: Final = 8
MAX_RELATIVE: Final = 2**31 - 1
_INT32: Final = "i"
_CHUNK: Final = 8192


class IndexDamagedError(ValueError):
    """An index file that cannot be what was written: it has to be built again."""


class OffsetIndex:
    """The entries in memory. ``append`` keeps them ascending."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array(_INT32)
        self._positions = array(_INT32)

    def __len__(self) -> int:
        return len(self._offsets)

    def append(self, relative: int, position: int) -> None:
        """``relative``: last offset of the batch at ``position``, minus the base."""
        self._positions.append(
            position
        )  # first: a reader in another thread finds the position by the offset
        self._offsets.append(relative)

    def entry(self, number: int) -> tuple[int, int]:
        """(relative offset, position) of an entry; -1 is the last."""
        return self._offsets[number], self._positions[number]

    def lookup(self, relative: int) -> int:
        """A position at or before the batch that holds the offset: start reading there."""
        number = bisect_right(self._offsets, relative)
        return self._positions[number - 1] if number else 0

    def position_before(self, position: int) -> int:
        """The greatest known start of a batch that is not above ``position``."""
        number = bisect_right(self._positions, position)
        return self._positions[number - 1] if number else 0

    def before(self, position: int) -> OffsetIndex:
        """A copy with the entries of batches that begin before ``position``."""
        count = bisect_left(self._positions, position)
        copy = OffsetIndex()
        copy._offsets, copy._positions = self._offsets[:count], self._positions[:count]
        return copy

    def encode(self, first: int = 0, end: int | None = None) -> bytes:
        """The file's bytes from entry ``first`` to before ``end``."""
        offsets, positions = self._offsets[first:end], self._positions[first:end]
        entries = array(_INT32, bytes(ENTRY_SIZE * len(offsets)))
        entries[0::2] = offsets
        entries[1::2] = positions[: len(offsets)]
        return _big_endian(entries).tobytes()

    @classmethod
    def decode(cls, data: Data, log_size: int) -> OffsetIndex:
        """Read a file. IndexDamagedError unless the entries are ascending and within the log."""
        if len(data) % ENTRY_SIZE:
            raise IndexDamagedError(f"{len(data)} bytes are no whole number of entries")
        entries = _big_endian(array(_INT32, bytes(data)))
        index = cls()
        index._offsets = entries[0::2]
        index._positions = entries[1::2]
        if not is_ascending(index._offsets, -1) or not is_ascending(index._positions, 0):
            raise IndexDamagedError("the entries do not ascend")
        if len(index) and index._positions[-1] >= log_size:
            raise IndexDamagedError("an entry points behind the end of the log")
        return index


def is_ascending(numbers: array[int], above: int) -> bool:
    """Whether the numbers strictly ascend from above ``above``."""
    if len(numbers) and numbers[0] <= above:
        return False
    for start in range(0, len(numbers), _CHUNK):  # other threads may run in between
        piece = numbers[start : start + _CHUNK + 1]
        if not all(map(int.__lt__, piece, piece[1:])):
            return False
    return True


def _big_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
