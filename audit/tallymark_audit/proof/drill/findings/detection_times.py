"""When the audit first said each thing: the store is read again and again while the drill runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import now_ms
from tallymark.errors import TallymarkError
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote
from tallymark_audit.proof.drill.findings.found import ALARMS, items_of, located, read_verdicts
from tallymark_audit.proof.drill.truth.expected import (
    BLOCK,
    CORRUPT,
    DUPLICATION,
    LOSS,
    Cell,
    Finding,
)

_PAUSE_SECONDS: Final = 0.4
KIND_OF: Final[Mapping[str, str]] = {
    kinds.DROP: LOSS,
    kinds.DROP_BATCH: LOSS,
    kinds.TORN_TAIL: LOSS,
    kinds.CUT_OUT: LOSS,
    kinds.DROP_FETCHED: LOSS,
    kinds.LOST_IN_FAILOVER: LOSS,
    kinds.UNCLEAN_ELECTION: LOSS,
    kinds.DUPLICATE: DUPLICATION,
    kinds.DUPLICATE_BATCH: DUPLICATION,
    kinds.LOST_ACK: DUPLICATION,
    kinds.CORRUPT: CORRUPT,
}
"""What a fault leads to, where it leads to anything."""


@dataclass(slots=True)
class DetectionTimes:
    """``detected``: when a cell's window first was in a state of alarm (ms, by edge, topic and
    window). ``named``: when an item was first listed, with its place where it has one."""

    detected: dict[tuple[str, str, int], int] = field(
        default_factory=dict[tuple[str, str, int], int]
    )
    named: dict[Finding, int] = field(default_factory=dict[Finding, int])


class StoreWatcher:
    """Reads the store in a thread of its own until closed."""

    def __init__(self, store: str) -> None:
        self.seen = DetectionTimes()
        self._store = store
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="drill-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _watch(self) -> None:
        while not self._stopped.wait(_PAUSE_SECONDS):
            try:
                rows = read_verdicts(self._store, ALARMS)
            except (TallymarkError, SQLAlchemyError):
                continue  # there is no store yet, or it is busy: a later look sees the same
            now = now_ms()
            for row in rows:
                place = (row["edge"], row["topic"], row["window"])
                self.seen.detected.setdefault(place, now)
            placed = located(rows)
            for item in items_of(rows):
                if item.kind != LOSS or not item.mirrored or item in placed:
                    self.seen.named.setdefault(item, now)


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from the fault to the first alarm, and to the message's name."""

    detect: tuple[float, ...] = ()
    name: tuple[float, ...] = ()


def times_of(
    items: Iterable[Finding], notes: Iterable[FaultNote], seen: DetectionTimes
) -> Mapping[str, Times]:
    """The times by kind, of the items whose fault was noted."""
    made = _moments(notes)
    detect: dict[str, list[float]] = {}
    name: dict[str, list[float]] = {}
    for item in items:
        at = made.get((item.kind, *_who(item.cell), item.number))
        if at is None:
            continue
        cell = item.cell
        first = seen.detected.get((cell.edge, cell.topic, cell.window))
        if first is not None:
            detect.setdefault(item.kind, []).append((first - at) / 1000)
        if item in seen.named:
            name.setdefault(item.kind, []).append((seen.named[item] - at) / 1000)
    reached = sorted(detect.keys() | name.keys())
    return {k: Times(tuple(detect.get(k, ())), tuple(name.get(k, ()))) for k in reached}


def _who(cell: Cell) -> tuple[str, str, int, str, str]:
    return cell.edge, cell.topic, cell.partition, cell.server, cell.instance


def _moments(notes: Iterable[FaultNote]) -> dict[tuple[str, str, str, int, str, str, int], int]:
    """When a fault first hit a message (of CORRUPT: its block), by kind of finding."""
    found: dict[tuple[str, str, str, int, str, str, int], int] = {}
    for note in notes:
        kind = KIND_OF.get(note.kind)
        if kind is None:
            continue
        for first, last in note.sequences:
            for sequence in range(first, last + 1):
                number = sequence // BLOCK if kind == CORRUPT else sequence
                who = (note.hop, note.topic, note.partition, note.server, note.instance)
                found.setdefault((kind, *who, number), note.at)
    return found
