"""Cut the records of a fetch into strips: records of one cell with consecutive sequences. Pure.

Records of other cells between do not end a strip::

    A 41  B 7  A 42  A 43  B 8  B 10        →    A 41-43   B 7-8   B 10
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallymark_audit.model.hashing import BLOCK
from tallymark_spark_jobs.counting.identities import (
    MALFORMED,
    NO_STAMP,
    Bytes,
    Flags,
    Identity,
    Integers,
    Words,
    read_stamps,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT: Final = 1 << 16
"""Codes of 16 bits are sorted in a tenth of the time."""


class Records(NamedTuple):
    """Records in the order in which they were read. ``stamp`` and ``stamp_size``: where each one's
    stamp is in ``data``, a size of -1: there is none; timestamps are ms, ``size`` the bytes of key
    and value. ``checksums`` of keys and values, where contents are hashed."""

    data: Bytes
    stamp: Integers
    stamp_size: Integers
    offset: Integers
    timestamp: Integers
    size: Integers
    aborted: Flags
    checksums: Words | None = None


class Strip(NamedTuple):
    """Records of one cell, ``sequence`` and the next ones if they are stamped, else -1. ``sender``:
    its place in the list that comes with it, or why there is none. ``straight``: each record's
    offset is one more than that of the one before. ``content``: the sum of the hashes."""

    sender: int
    window: int
    aborted: bool
    sequence: int
    records: int
    first_offset: int
    last_offset: int
    bytes: int
    min_timestamp: int
    max_timestamp: int
    straight: bool
    content: int


def cut(
    records: Records, window_ms: int, times: tuple[int, int], straight: bool = False
) -> tuple[list[Strip], list[Identity]]:
    """The strips of the records within ``times`` (ms, the end excluded), those of one cell in the
    order in which they were read, and the senders. ``straight``: strips end where offsets do not
    rise by one, too."""
    kept = _within(records, times)
    stamps = read_stamps(kept.data, kept.stamp, kept.stamp_size)
    sender, sequence = stamps.sender, stamps.sequence
    if kept.aborted.any():  # without a sequence there is nothing that could be compared
        keep = ~(kept.aborted & (sender < 0))
        if not keep.all():
            kept, sender, sequence = _only(kept, keep), sender[keep], sequence[keep]
    if not len(sender):
        return [], []
    window = _windows(kept.timestamp, window_ms)
    cell = _cells(sender, window, kept.aborted)
    if cell is not None:
        order = cell.argsort(kind="stable")
        kept = _only(kept, order)
        cell, sender, sequence, window = cell[order], sender[order], sequence[order], window[order]
    return _strips(kept, cell, sender, sequence, window, straight), stamps.senders


def _within(records: Records, times: tuple[int, int]) -> Records:
    low, high = times
    at = records.timestamp
    if not len(at) or (low <= int(np.min(at)) and int(np.max(at)) < high):
        return records
    return _only(records, (at >= max(low, -(1 << 63))) & (at <= min(high - 1, (1 << 63) - 1)))


def _only(records: Records, which: Flags | Integers) -> Records:
    return Records(
        records.data,
        records.stamp[which],
        records.stamp_size[which],
        records.offset[which],
        records.timestamp[which],
        records.size[which],
        records.aborted[which],
        None if records.checksums is None else records.checksums[which],
    )


def _windows(timestamp: Integers, window_ms: int) -> Integers:
    """Of each record the start of its window, as :func:`tallymark_audit.model.cells.window_of`."""
    first, last = int(np.min(timestamp)), int(np.max(timestamp))
    if first >= 0 and first // window_ms == last // window_ms:
        return np.full(len(timestamp), first - first % window_ms, np.int64)
    return np.where(timestamp >= 0, timestamp - timestamp % window_ms, -window_ms)


def _cells(sender: Integers, window: Integers, aborted: Flags) -> NDArray[Any] | None:
    """A small number for each record's cell; None: they are all of one."""
    code = sender - MALFORMED
    size = int(np.max(code)) + 1
    if np.min(window) != np.max(window):
        some, place = np.unique(window, return_inverse=True)
        code, size = code * len(some) + place, size * len(some)
    if aborted.any():
        code, size = code * 2 + aborted, size * 2
    if (code == code[0]).all():
        return None
    return code.astype(np.uint16) if size <= _SHORT else code


def _strips(
    kept: Records,
    cell: NDArray[Any] | None,
    sender: Integers,
    sequence: Integers,
    window: Integers,
    straight: bool,
) -> list[Strip]:
    count = len(sender)
    stamped = sender > NO_STAMP
    ends = sequence[1:] != sequence[:-1] + 1
    steps = kept.offset[1:] != kept.offset[:-1] + 1
    if kept.checksums is not None:
        ends |= sequence[1:] % BLOCK == 0
    if straight or not (kept.offset[1:] > kept.offset[:-1])[~ends].all():
        ends |= steps
    ends &= stamped[1:]
    if cell is not None:
        ends |= cell[1:] != cell[:-1]
    starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
    last = np.append(starts[1:], count) - 1
    jumps = np.zeros(count, np.int64)
    jumps[1:] = steps.cumsum()
    columns: list[Sequence[int]] = [
        sender[starts].tolist(),
        window[starts].tolist(),
        kept.aborted[starts].tolist(),
        np.where(stamped[starts], sequence[starts], -1).tolist(),
        (last - starts + 1).tolist(),
        np.minimum.reduceat(kept.offset, starts).tolist(),
        np.maximum.reduceat(kept.offset, starts).tolist(),
        np.add.reduceat(kept.size, starts).tolist(),
        np.minimum.reduceat(kept.timestamp, starts).tolist(),
        np.maximum.reduceat(kept.timestamp, starts).tolist(),
        (jumps[starts] == jumps[last]).tolist(),
        _contents(kept, sequence, stamped, starts),
    ]
    return list(map(Strip._make, zip(*columns, strict=True)))


def _contents(kept: Records, sequence: Integers, stamped: Flags, starts: Integers) -> list[int]:
    """The sums of the hashes of contents, modulo 2^64."""
    if kept.checksums is None:
        return [0] * len(starts)
    hashes = mixed(mixed(sequence.astype(np.uint64)) ^ kept.checksums)
    sums: list[int] = np.add.reduceat(np.where(stamped, hashes, np.uint64(0)), starts).tolist()
    return sums


def mixed(numbers: Words) -> Words:
    """:func:`tallymark_audit.model.hashing.mix` of each."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Words = z ^ (z >> np.uint64(31))
    return found
