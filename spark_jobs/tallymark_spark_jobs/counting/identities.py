"""The stamps of many records at once: the sender of each, and its sequence. Pure.

The stamps stand somewhere in one buffer, in any order and of any senders, so a mirror's batches
cost what those of one producer cost::

    data      .. │ 1 │ instance │ partition │ sequence │ server │ .. │ 1 │ instance ...
    stamp ───────┘                                              │
    stamp + size ───────────────────────────────────────────────┘

:func:`tallymark.client.producing.stamps.decode_stamp` reads one, and is the reference.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tallymark.client.producing.stamps import (
    INSTANCE_BYTES,
    MAX_PARTITION,
    MAX_SERVER_BYTES,
    STAMP_VERSION,
)

Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Flags: TypeAlias = NDArray[np.bool_]

NO_STAMP: Final = -1
"""In place of an identity: there is no header."""
MALFORMED: Final = -2
"""There is one, which is no stamp."""
LEAST_DATA: Final = 64
"""A buffer has at least so many bytes."""
_IDENTITY: Final = 1 + INSTANCE_BYTES
_SHORTEST: Final = _IDENTITY + 2
_LONGEST_NUMBER: Final = 9
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


class Identity(NamedTuple):
    """The sender: the partition of origin, the instance in hex, and the server."""

    partition: int
    instance: str
    server: str


class Stamps(NamedTuple):
    """Of each record the place of its sender in ``senders``, or :data:`NO_STAMP` or
    :data:`MALFORMED`; and its sequence, 0 without a stamp."""

    sender: Integers
    sequence: Integers
    senders: list[Identity]


def read_stamps(data: Bytes, stamp: Integers, size: Integers) -> Stamps:
    """The stamps at these positions, of so many bytes; -1: there is none. ``data`` has
    :data:`LEAST_DATA` bytes at least."""
    found = size >= _SHORTEST
    at = np.where(found, stamp, 0)
    found &= data[at] == STAMP_VERSION
    stop = at + size
    partition, number = _numbers(data, at + _IDENTITY, stop)
    found &= (number > 0) & (partition <= MAX_PARTITION)
    sequence, server = _numbers(data, np.where(found, number, 0), stop)
    found &= server > 0
    sender, senders = _senders(data, found, at, number, server, stop)
    bad = np.array([one is None for one in senders], np.bool_)
    if bad.any():
        found[found] = ~bad[sender[found]]
    sender[~found] = np.where(size[~found] < 0, NO_STAMP, MALFORMED)
    sequence[~found] = 0
    return Stamps(sender, sequence, [one or Identity(0, "", "") for one in senders])


def _numbers(data: Bytes, at: Integers, stop: Integers) -> tuple[Integers, Integers]:
    """The numbers at these positions of stamps that end at ``stop``, and the positions after them;
    -1 where one is cut short, longer than 9 bytes, or in more bytes than it needs."""
    byte = data[np.minimum(at, len(data) - 1)]
    value = (byte & 0x7F).astype(np.int64)
    after = np.where(at < stop, at + 1, -1)
    rows = np.flatnonzero((byte >= 0x80) & (at < stop))
    for index in range(1, _LONGEST_NUMBER):
        if not len(rows):
            break
        place = at[rows] + index
        inside = place < stop[rows]
        after[rows[~inside]] = -1
        rows, place = rows[inside], place[inside]
        byte = data[place]
        value[rows] |= (byte & 0x7F).astype(np.int64) << 7 * index
        after[rows] = np.where(byte, place + 1, -1)
        rows = rows[byte >= 0x80]
    after[rows] = -1
    return value, after


def _senders(
    data: Bytes, found: Flags, at: Integers, number: Integers, server: Integers, stop: Integers
) -> tuple[Integers, list[Identity | None]]:
    """Of each record that is found the place of its sender; None is no sender: the server's name
    cannot be one. Neighbours are mostly of one sender, and are looked at as one."""
    rows = np.flatnonzero(found)
    sender = np.zeros(len(found), np.int64)
    if not len(rows):
        return sender, []
    at, number, server, stop = at[rows], number[rows], server[rows], stop[rows]
    parts = _parts(data, at, number, server, stop)
    changes = np.ones(len(rows), np.bool_)
    changes[1:] = False
    for part in parts:
        changes[1:] |= part[1:] != part[:-1]
    starts = np.flatnonzero(changes)
    places, firsts = _alike([part[starts] for part in parts])
    sender[rows] = places.repeat(np.diff(starts, append=len(rows)))
    view = memoryview(data)
    first = starts[firsts]
    bounds = (at[first], number[first], server[first], stop[first])
    return sender, [
        identity_of(bytes(view[a + 1 : b]), bytes(view[c:d]))
        for a, b, c, d in zip(*(one.tolist() for one in bounds), strict=True)
    ]


def _parts(
    data: Bytes, at: Integers, number: Integers, server: Integers, stop: Integers
) -> list[Words]:
    """What two stamps of one sender have in common, as words of 8 bytes."""
    words = np.ndarray((len(data) - 7,), np.dtype("<u8"), data, strides=(1,))
    parts = [words[at + 1], _cut(words, at + _IDENTITY, number)]
    length = stop - server
    parts.append(length.astype(np.uint64))
    begins = range(0, min(int(np.max(length)), MAX_SERVER_BYTES), 8)
    return [*parts, *(_cut(words, server + begin, stop) for begin in begins)]


def _cut(words: Words, at: Integers, stop: Integers) -> Words:
    """8 bytes at each position, without those from ``stop`` on."""
    place = np.minimum(at, len(words) - 1)
    before = np.minimum(at - place, 7).astype(np.uint64) << np.uint64(3)
    left = np.clip(stop - at, 0, 8).astype(np.uint64) << np.uint64(3)
    mask = (np.uint64(1) << left) - np.uint64(1)  # numpy shifts all bits out by 64
    found: Words = (words[place] >> before) & mask
    return found


def _alike(parts: list[Words]) -> tuple[Integers, Integers]:
    """Numbers rows that are the same in all parts: of each row its number, and of each number its
    first row."""
    hashes = np.zeros(len(parts[0]), np.uint64)
    for part in parts:
        hashes = (hashes ^ part) * _FACTOR
        hashes ^= hashes >> np.uint64(32)
    _, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    if all((part == part[first][place]).all() for part in parts):
        return place, first
    # These names were made to have the same hash.
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[int] = []
    places: list[int] = []
    for row, name in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        number = numbers.setdefault(name, len(numbers))
        if number == len(firsts):
            firsts.append(row)
        places.append(number)
    return np.array(places, np.int64), np.array(firsts, np.int64)


@lru_cache(maxsize=8192)
def identity_of(head: bytes, server: bytes) -> Identity | None:
    """The sender; None: a server cannot have that name. ``head``: instance and partition, as a
    stamp has them. A server with a NUL, which no column of text holds, makes a stamp unreadable, as
    it does for the collector."""
    if len(server) > MAX_SERVER_BYTES or 0 in server:
        return None
    try:
        name = server.decode()
    except UnicodeDecodeError:
        return None
    partition = 0
    for byte in reversed(head[INSTANCE_BYTES:]):
        partition = partition << 7 | byte & 0x7F
    return Identity(partition, head[:INSTANCE_BYTES].hex(), name)
