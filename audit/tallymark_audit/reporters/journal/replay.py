"""Replay the entries of a journal into the books of the run that wrote it. Layout:
:mod:`.layout`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from zlib import crc32

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, Summary
from tallymark_audit.model.ranges import GrowingRanges, RangeSet
from tallymark_audit.model.repeats import GrowingLevels, levels_from_json
from tallymark_audit.reporters.books.runs import Run, TallyKey
from tallymark_audit.reporters.books.tally import Tally
from tallymark_audit.reporters.books.tally_cell import Outcome, TallyCell
from tallymark_audit.reporters.journal import layout
from tallymark_audit.reporters.journal.layout import Kind
from tallymark_audit.reporters.journal.transactions import as_read, this_boot

if TYPE_CHECKING:
    from tallymark_audit.reporters.processing.processing import Processing


class BadJournalError(ValueError):
    """The file is not a journal, or is damaged where no death of its writer could have."""


class Journaled(NamedTuple):
    """What a journal holds: the cluster's id and the books, with the reporter's identity. Of a
    consumer also what it had in flight, and the slot of each partition in its marks file."""

    cluster: str
    tally: Tally
    processing: Processing | None = None
    slots: Mapping[TopicPartition, int] = {}


def replay(books: Books, view: memoryview, position: int) -> None:
    """Replay all entries from ``position`` on. BadJournalError: see there."""
    try:
        for kind, payload in _entries(view, position):
            books.replay(kind, payload)
    except (struct.error, LookupError, ValueError, TypeError) as error:
        raise BadJournalError(f"an entry makes no sense: {error!r}") from error


class Books:
    """A tally under replay; cells are found by part."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.keys: dict[int, TallyKey] = {}

    def replay(self, kind: int, payload: bytes) -> None:
        """One entry. ValueError and the like: it makes no sense."""
        replay = self._REPLAYS.get(kind)
        if replay is None:
            raise ValueError(f"kind {kind}")
        replay(self, payload)

    def _cell(self, payload: bytes) -> None:
        part, partition, window = layout.CELL_FIELDS.unpack_from(payload)
        topic, *whose = payload[layout.CELL_FIELDS.size :].decode().split("\0")
        self.keys[part] = TallyKey(topic, partition, window, *whose)
        self.tally.next_part = max(self.tally.next_part, part)

    def _accept(self, payload: bytes) -> None:
        part, first, last, size, low, high, now, skewed = layout.ACCEPT_FIELDS.unpack(payload)
        self.tally.accept(Run(self.keys[part], first, last, low, high), size, now, skewed)

    def _settle(self, payload: bytes) -> None:
        part, outcome, first, last, now = layout.SETTLE_FIELDS.unpack(payload)
        self.tally.settle(self.keys[part], Outcome(outcome), first, last, now)

    def _acknowledge(self, payload: bytes) -> None:
        part, first, last, now, ms = layout.ACKNOWLEDGE_FIELDS.unpack(payload)
        latency = None if ms < 0 else ms
        self.tally.settle(self.keys[part], Outcome.ACKNOWLEDGED, first, last, now, latency)

    def _contents(self, payload: bytes) -> None:
        (part,) = layout.PART_FIELDS.unpack_from(payload)
        blocks = [
            Block(*fields)
            for fields in layout.BLOCK_FIELDS.iter_unpack(payload[layout.PART_FIELDS.size :])
        ]
        self.tally.fold(self.keys[part], blocks)

    def _left_out(self, payload: bytes) -> None:
        self.tally.leave_out(*layout.LEFT_OUT_FIELDS.unpack(payload))

    def _report(self, payload: bytes) -> None:
        (self.tally.next_event,) = layout.REPORT_FIELDS.unpack(payload)

    def _drop(self, payload: bytes) -> None:
        part, carrier = layout.DROP_FIELDS.unpack(payload)
        self.tally.drop(self._forgotten(part), carrier)

    def _transaction(self, payload: bytes) -> None:
        stage, boot = layout.TRANSACTION_FIELDS.unpack(payload)
        self.tally.transaction = as_read(stage, boot, this_boot())

    def _forgotten(self, part: int) -> TallyKey:
        return self.keys.pop(part)

    def _books(self, payload: bytes) -> None:
        tally = self.tally
        tally.next_event, tally.next_part, tally.dropped_through = layout.BOOKS_FIELDS.unpack(
            payload
        )

    def _state(self, payload: bytes) -> None:
        cell = _cell_of(json.loads(payload))
        self.tally.cells[self.keys[cell.part]] = cell

    _REPLAYS: ClassVar[dict[int, Callable[[Any, bytes], None]]] = {
        Kind.CELL: _cell,
        Kind.ACCEPT: _accept,
        Kind.SETTLE: _settle,
        Kind.ACKNOWLEDGE: _acknowledge,
        Kind.CONTENTS: _contents,
        Kind.LEFT_OUT: _left_out,
        Kind.REPORT: _report,
        Kind.DROP: _drop,
        Kind.BOOKS: _books,
        Kind.TRANSACTION: _transaction,
        Kind.STATE: _state,
    }


def _entries(view: memoryview, position: int) -> Iterator[tuple[int, bytes]]:
    while position + layout.ENTRY_FIELDS.size <= len(view):
        crc, length, kind = layout.ENTRY_FIELDS.unpack_from(view, position)
        end = position + layout.ENTRY_FIELDS.size + length
        if crc == length == kind == 0:
            _check_end(view, position)
            return
        if length > layout.MAX_ENTRY or end > len(view) or crc32(view[position + 4 : end]) != crc:
            _check_end(view, position)
            return
        yield kind, bytes(view[position + layout.ENTRY_FIELDS.size : end])
        position = end


def _check_end(view: memoryview, position: int) -> None:
    """A death cuts the last entry, whose bytes may have been written in any order, and leaves
    zeros behind it. Other bytes further on mean that an entry in the middle was damaged."""
    rest = bytes(view[position + layout.LONGEST_CUT :])
    if rest.count(0) != len(rest):
        raise BadJournalError(f"damaged at byte {position}, with entries behind it")


def _cell_of(raw: dict[str, Any]) -> TallyCell:
    """Also reads the state that older versions wrote, without summary, contents and latency."""
    blocks: Iterable[Block] = (Block(*fields) for fields in raw.get("blocks", ()))
    settled: dict[str, list[int]] = raw["settled"]
    again: list[list[int]] | None = raw.get("again", [])
    raw |= {
        "accepted": GrowingRanges(RangeSet.from_list(raw["accepted"])),
        "settled": {
            Outcome(int(outcome)): GrowingRanges(RangeSet.from_list(flat))
            for outcome, flat in settled.items()
        },
        "summary": Summary(*raw["summary"]) if raw.get("summary") else None,
        "blocks": {block.block: block for block in blocks},
        "again": None if again is None else GrowingLevels(levels_from_json(again)),
        "latency": sketches.from_list(raw.get("latency", ())),
        "carrier": -1,  # it is not known what arrived: report all of it again
    }
    return TallyCell(**raw)
