"""The journal file: what of a producer run's books survives its sudden death.

One file a run, ``<instance>.journal``, written through a shared memory map: the page cache keeps
what a killed process wrote. (A power failure may lose the last seconds; it also ends the run.)

::

    0                8        12            16                   16+n
    +----------------+--------+-------------+--------------------+-------+-------+-- - -
    | "TMJRNL" 00 01 | n, u32 | CRC-32, u32 | identity, n B JSON | entry | entry | zeros
    +----------------+--------+-------------+--------------------+-------+-------+-- - -

    entry:   0             4             8          9
             +-------------+-------------+----------+------------------+
             | CRC-32, u32 | length, u32 | kind, u8 | payload, length  |
             +-------------+-------------+----------+------------------+

All numbers are little endian. The CRC covers length, kind and payload. Entries record the calls
that change a :class:`~tallymark_audit.tally.Tally`, in order; a cell is named by its part. The
file is zeroed before it is used, so entries end at the first zeros; an entry that a death cut in
two fails its CRC with nothing but zeros behind it. Damage anywhere else makes the file *bad*.

    kind       payload
    CELL       part u32, partition i32, window i64, topic UTF-8
    ACCEPT     part u32, first i64, last i64, bytes u64, min ts i64, max ts i64, now i64, skewed u32
    SETTLE     part u32, outcome u8, first i64, last i64, now i64
    REPORT     next event number u64
    DROP       part u32, carrier i64
    BOOKS      next event u64, next part u64, dropped through i64     (of a compacted journal)
    STATE      JSON of one whole cell                                 (of a compacted journal)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from enum import IntEnum
from typing import Any, Final, NamedTuple
from zlib import crc32

from tallymark_audit.ranges import RangeSet
from tallymark_audit.tally import Identity, Outcome, Run, Tally, TallyCell, TallyKey

MAGIC: Final = b"TMJRNL\x00\x01"
SUFFIX: Final = ".journal"
DRAFT: Final = ".draft"
"""Of a file that is being written and has no name yet."""
_PREFIX: Final = struct.Struct("<8sII")
_ENTRY: Final = struct.Struct("<IIB")
_CELL: Final = struct.Struct("<Iiq")
_ACCEPT: Final = struct.Struct("<IqqQqqqI")
_SETTLE: Final = struct.Struct("<IBqqq")
_REPORT: Final = struct.Struct("<Q")
_DROP: Final = struct.Struct("<Iq")
_BOOKS: Final = struct.Struct("<QQq")
MAX_ENTRY: Final = 1 << 26
LONGEST_CUT: Final = 512
"""No entry but STATE is longer, and a file that has those is complete before it has its name."""


class Kind(IntEnum):
    """0 is the end of the entries."""

    CELL = 1
    ACCEPT = 2
    SETTLE = 3
    REPORT = 4
    DROP = 5
    BOOKS = 6
    STATE = 7


class BadJournalError(ValueError):
    """The file is not a journal, or is damaged where no death of its writer could have."""


class Journaled(NamedTuple):
    """What a journal tells: whose it is (cluster id and identity), and the books."""

    cluster: str
    tally: Tally


def header(cluster: str, identity: Identity) -> bytes:
    """The head of a new journal."""
    text = json.dumps({"cluster": cluster, **asdict(identity)}).encode()
    return _PREFIX.pack(MAGIC, len(text), crc32(text)) + text


def entry(kind: Kind, payload: bytes) -> bytes:
    """One entry."""
    body = _ENTRY.pack(0, len(payload), kind)[4:] + payload
    return crc32(body).to_bytes(4, "little") + body


def cell_entry(part: int, key: TallyKey) -> bytes:
    return entry(Kind.CELL, _CELL.pack(part, key.partition, key.window) + key.topic.encode())


def accept_entry(part: int, run: Run, size: int, now_ms: int, skewed: int) -> bytes:
    times = run.min_timestamp, run.max_timestamp, now_ms
    return entry(Kind.ACCEPT, _ACCEPT.pack(part, run.first, run.last, size, *times, skewed))


def settle_entry(part: int, outcome: Outcome, first: int, last: int, now_ms: int) -> bytes:
    return entry(Kind.SETTLE, _SETTLE.pack(part, outcome, first, last, now_ms))


def report_entry(next_event: int) -> bytes:
    return entry(Kind.REPORT, _REPORT.pack(next_event))


def drop_entry(part: int, carrier: int) -> bytes:
    return entry(Kind.DROP, _DROP.pack(part, carrier))


def snapshot(tally: Tally) -> Iterator[bytes]:
    """The entries that give the tally as it is now."""
    books = _BOOKS.pack(tally.next_event, tally.next_part, tally.dropped_through)
    yield entry(Kind.BOOKS, books)
    for key, cell in tally.cells.items():
        yield cell_entry(cell.part, key)
        yield entry(Kind.STATE, json.dumps(_state(cell)).encode())


def read(data: bytes | memoryview) -> Journaled:
    """The books a journal's bytes tell. BadJournalError: see there."""
    view = memoryview(data)
    cluster, identity, position = _read_header(view)
    books = _Books(Tally(identity))
    try:
        for kind, payload in _entries(view, position):
            books.replay(kind, payload)
    except (struct.error, KeyError, ValueError, TypeError) as error:
        raise BadJournalError(f"an entry makes no sense: {error!r}") from error
    return Journaled(cluster, books.tally)


class _Books:
    """A tally under replay; cells are found by part."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.keys: dict[int, TallyKey] = {}

    def replay(self, kind: int, payload: bytes) -> None:
        tally = self.tally
        if kind == Kind.CELL:
            part, partition, window = _CELL.unpack_from(payload)
            self.keys[part] = TallyKey(payload[_CELL.size :].decode(), partition, window)
            tally.next_part = max(tally.next_part, part)
        elif kind == Kind.ACCEPT:
            part, first, last, size, low, high, now, skewed = _ACCEPT.unpack(payload)
            tally.accept(Run(self.keys[part], first, last, low, high), size, now, skewed)
        elif kind == Kind.SETTLE:
            part, outcome, first, last, now = _SETTLE.unpack(payload)
            tally.settle(self.keys[part], Outcome(outcome), first, last, now)
        elif kind == Kind.REPORT:
            (tally.next_event,) = _REPORT.unpack(payload)
        elif kind == Kind.DROP:
            part, carrier = _DROP.unpack(payload)
            tally.drop(self.keys.pop(part), carrier)
        elif kind == Kind.BOOKS:
            tally.next_event, tally.next_part, tally.dropped_through = _BOOKS.unpack(payload)
        elif kind == Kind.STATE:
            cell = _cell(json.loads(payload))
            tally.cells[self.keys[cell.part]] = cell
        else:
            raise ValueError(f"kind {kind}")


def _read_header(view: memoryview) -> tuple[str, Identity, int]:
    if len(view) < _PREFIX.size:
        raise BadJournalError("too short for a journal")
    magic, length, crc = _PREFIX.unpack_from(view)
    end = _PREFIX.size + length
    text = bytes(view[_PREFIX.size : end])
    if magic != MAGIC or len(text) != length or crc32(text) != crc:
        raise BadJournalError("no journal of a version that is known here")
    try:
        raw: dict[str, Any] = json.loads(text)
        return raw.pop("cluster"), Identity(**raw), end
    except (ValueError, KeyError, TypeError) as error:
        raise BadJournalError(f"the identity makes no sense: {error!r}") from error


def _entries(view: memoryview, position: int) -> Iterator[tuple[int, bytes]]:
    while position + _ENTRY.size <= len(view):
        crc, length, kind = _ENTRY.unpack_from(view, position)
        end = position + _ENTRY.size + length
        if crc == length == kind == 0:
            _check_end(view, position)
            return
        if length > MAX_ENTRY or end > len(view) or crc32(view[position + 4 : end]) != crc:
            _check_end(view, position)
            return
        yield kind, bytes(view[position + _ENTRY.size : end])
        position = end


def _check_end(view: memoryview, position: int) -> None:
    """A death cuts the last entry, whose bytes may have been copied in any order, and leaves zeros
    behind it. Bytes further on mean that an entry in the middle was damaged."""
    rest = bytes(view[position + LONGEST_CUT :])
    if rest.count(0) != len(rest):
        raise BadJournalError(f"damaged at byte {position}, with entries behind it")


def _state(cell: TallyCell) -> dict[str, Any]:
    raw = {name: getattr(cell, name) for name in TallyCell.__slots__}
    raw["accepted"] = cell.accepted.to_list()
    raw["settled"] = {str(int(key)): value.to_list() for key, value in cell.settled.items()}
    return raw


def _cell(raw: dict[str, Any]) -> TallyCell:
    raw["accepted"] = RangeSet.from_list(raw["accepted"])
    raw["settled"] = {
        Outcome(int(key)): RangeSet.from_list(value) for key, value in raw["settled"].items()
    }
    raw["carrier"] = -1  # nobody knows any more what arrived: tell all of it again
    return TallyCell(**raw)
