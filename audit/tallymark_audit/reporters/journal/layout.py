"""The journal file: the books of a producer run, kept through its sudden death. Read by
:mod:`.reading`.

One file for each run, ``<instance>.journal``, written through a shared memory map: the page cache
keeps what a killed process wrote. (A power failure may lose the last seconds; it also ends the
run.)

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
that change a :class:`~tallymark_audit.reporters.books.tally.Tally`, in order; a cell is named by
its part. The file is zeroed before it is used, so entries end at the first zeros; an entry that a
death cut in two fails its CRC with nothing but zeros behind it. Damage anywhere else makes the file
*bad*.

    kind         payload
    CELL         part u32, partition i32, window i64, topic UTF-8
                 (of a consumer: topic, 0, server, 0, instance)
    ACCEPT       part u32, first i64, last i64, bytes u64, min ts i64, max ts i64, now i64,
                 skewed u32
    SETTLE       part u32, outcome u8, first i64, last i64, now i64
    ACKNOWLEDGE  part u32, first i64, last i64, now i64, latency ms i32 (-1: not known)
    CONTENTS     part u32, then of each block (16 at most): number u64, records u32, hash u64
    LEFT_OUT     records u64, smallest timestamp i64
    REPORT       next event number u64
    TRANSACTION  stage u8 (0: there is none), boot of the host 16 B
    DROP         part u32, carrier i64
    BOOKS        next event u64, next part u64, dropped through i64   (of a compacted journal)
    STATE        JSON of one whole cell                               (of a compacted journal)

TRANSACTION, which only the journals of transactional producers have, says how far the open
transaction is (:mod:`.transactions`). What is pending then is in it, and ends with it.

SETTLE may hold an acknowledgement too: older versions, which had no ACKNOWLEDGE, wrote that. The
other entries of a consumer's journal are drawn in :mod:`.consumer_layout`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import IntEnum
from typing import Any, Final
from zlib import crc32

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block
from tallymark_audit.model.repeats import levels_to_json
from tallymark_audit.reporters.books.runs import Run, TallyKey
from tallymark_audit.reporters.books.tally import ReporterIdentity, Tally
from tallymark_audit.reporters.books.tally_cell import Outcome, TallyCell
from tallymark_audit.reporters.journal.transactions import this_boot

MAGIC: Final = b"TMJRNL\x00\x01"
SUFFIX: Final = ".journal"
DRAFT: Final = ".draft"
"""Of a file that is being written and has no name yet."""
PREFIX_FIELDS: Final = struct.Struct("<8sII")
ENTRY_FIELDS: Final = struct.Struct("<IIB")
_BODY: Final = "<IB"
"""How an entry begins behind its CRC."""
CELL_FIELDS: Final = struct.Struct("<Iiq")
ACCEPT_FIELDS: Final = struct.Struct("<IqqQqqqI")
SETTLE_FIELDS: Final = struct.Struct("<IBqqq")
ACKNOWLEDGE_FIELDS: Final = struct.Struct("<Iqqqi")
PART_FIELDS: Final = struct.Struct("<I")
BLOCK_FIELDS: Final = struct.Struct("<QIQ")
LEFT_OUT_FIELDS: Final = struct.Struct("<Qq")
REPORT_FIELDS: Final = struct.Struct("<Q")
DROP_FIELDS: Final = struct.Struct("<Iq")
BOOKS_FIELDS: Final = struct.Struct("<QQq")
TRANSACTION_FIELDS: Final = struct.Struct("<B16s")
_ACCEPT_BODY: Final = struct.Struct(_BODY + "IqqQqqqI")
_ACKNOWLEDGE_BODY: Final = struct.Struct(_BODY + "Iqqqi")
"""The two entries of every batch, each packed in one call."""
BLOCKS_PER_ENTRY: Final = 16
OF_CONSUMERS: Final = frozenset({"group", "max_ranges", "skew_ms"})
"""The fields that only the header of a consumer's journal has."""
LONGEST_MS: Final = 2**31 - 1
MAX_ENTRY: Final = 1 << 26
LONGEST_CUT: Final = 1024
"""No entry but STATE and HELD is longer, and a file with those is complete before it gets its
name."""


class Kind(IntEnum):
    """0 is the end of the entries."""

    CELL = 1
    ACCEPT = 2
    SETTLE = 3
    REPORT = 4
    DROP = 5
    BOOKS = 6
    STATE = 7
    ACKNOWLEDGE = 8
    CONTENTS = 9
    LEFT_OUT = 10
    TRANSACTION = 11


_ACCEPT_SIZE, _ACCEPT_KIND = ACCEPT_FIELDS.size, int(Kind.ACCEPT)
_ACKNOWLEDGE_SIZE, _ACKNOWLEDGE_KIND = ACKNOWLEDGE_FIELDS.size, int(Kind.ACKNOWLEDGE)


def header(cluster: str, identity: ReporterIdentity, **more: Any) -> bytes:
    """The head of a new journal."""
    text = json.dumps({"cluster": cluster, **asdict(identity), **more}).encode()
    return PREFIX_FIELDS.pack(MAGIC, len(text), crc32(text)) + text


def entry(kind: int, payload: bytes) -> bytes:
    """One entry."""
    body = ENTRY_FIELDS.pack(0, len(payload), kind)[4:] + payload
    return crc32(body).to_bytes(4, "little") + body


def cell_entry(part: int, key: TallyKey) -> bytes:
    whose = (key.topic, key.server, key.instance) if key.instance or key.server else (key.topic,)
    fields = CELL_FIELDS.pack(part, key.partition, key.window)
    return entry(Kind.CELL, fields + "\0".join(whose).encode())


def accept_entry(part: int, run: Run, size: int, now_ms: int, skewed: int) -> bytes:
    _, first, last, low, high = run
    body = _ACCEPT_BODY.pack(
        _ACCEPT_SIZE, _ACCEPT_KIND, part, first, last, size, low, high, now_ms, skewed
    )
    return crc32(body).to_bytes(4, "little") + body


def acknowledge_entry(part: int, first: int, last: int, now_ms: int, latency: int | None) -> bytes:
    ms = -1 if latency is None else min(max(0, latency), LONGEST_MS)
    body = _ACKNOWLEDGE_BODY.pack(
        _ACKNOWLEDGE_SIZE, _ACKNOWLEDGE_KIND, part, first, last, now_ms, ms
    )
    return crc32(body).to_bytes(4, "little") + body


def contents_entry(part: int, blocks: Sequence[Block]) -> bytes:
    """Of :data:`BLOCKS_PER_ENTRY` blocks at most."""
    return entry(
        Kind.CONTENTS, PART_FIELDS.pack(part) + b"".join(BLOCK_FIELDS.pack(*one) for one in blocks)
    )


def left_out_entry(records: int, from_ms: int) -> bytes:
    return entry(Kind.LEFT_OUT, LEFT_OUT_FIELDS.pack(records, from_ms))


def settle_entry(part: int, outcome: Outcome, first: int, last: int, now_ms: int) -> bytes:
    return entry(Kind.SETTLE, SETTLE_FIELDS.pack(part, outcome, first, last, now_ms))


def report_entry(next_event: int) -> bytes:
    return entry(Kind.REPORT, REPORT_FIELDS.pack(next_event))


def drop_entry(part: int, carrier: int) -> bytes:
    return entry(Kind.DROP, DROP_FIELDS.pack(part, carrier))


def transaction_entry(stage: TransactionStage | None, boot: bytes) -> bytes:
    return entry(Kind.TRANSACTION, TRANSACTION_FIELDS.pack(stage or 0, boot))


def snapshot(tally: Tally) -> Iterator[bytes]:
    """The entries that give the tally as it is now."""
    books = BOOKS_FIELDS.pack(tally.next_event, tally.next_part, tally.dropped_through)
    yield entry(Kind.BOOKS, books)
    if tally.left_out:
        yield left_out_entry(tally.left_out, tally.left_out_from)
    if tally.transaction is not None:
        yield transaction_entry(tally.transaction, this_boot())
    for key, cell in tally.cells.items():
        yield cell_entry(cell.part, key)
        yield entry(Kind.STATE, json.dumps(_state(cell)).encode())


def _state(cell: TallyCell) -> dict[str, Any]:
    raw = {name: getattr(cell, name) for name in TallyCell.__slots__}
    raw["accepted"] = cell.accepted.frozen().to_list()
    raw["settled"] = {
        str(int(outcome)): cell.outcome(outcome).to_list() for outcome in cell.settled
    }
    raw["summary"] = list(cell.summary) if cell.summary else None
    raw["blocks"] = [list(block) for block in cell.blocks.values()]
    raw["again"] = None if cell.again is None else levels_to_json(cell.again.frozen())
    raw["latency"] = sketches.to_list(cell.latency)
    return raw
