"""Faults in the log of a broker that is dead: what a disk or a power failure does.

A torn tail is :func:`tallymark_audit.proof.harness.power_failure.cut_tail`. Here: records in the
middle of a segment vanish. The batch they were in keeps its place and offsets, the ones behind it
move forward in the file, and the segment's indexes are removed, so that the broker makes them anew.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallymark.protocol.records.batch import Record, split_batches
from tallymark_audit.proof.drill.faults.batches import cut_out, picked
from tallymark_audit.proof.drill.faults.ground_truth import FaultNote, notes_of
from tallymark_audit.proof.drill.faults.kinds import CUT_OUT, SIDE_FAULTS, TORN_TAIL
from tallymark_audit.proof.harness.power_failure import (
    Cut,
    UnflushedTail,
    cut_tail,
    unflushed_tails,
)

_INDEXES: Final = (".index", ".timeindex")
_BATCHES: Final = 3
"""So many batches lose records."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Records that were taken out of a log."""

    topic: str
    records: tuple[Record, ...]


def tear(data_dir: Path, chance: random.Random) -> Cut | None:
    """Cut the unflushed end of one partition; None: everything was flushed. Topics to which a
    fault of their own happens are left alone."""
    tails = [tail for tail in unflushed_tails(data_dir) if tail.topic not in SIDE_FAULTS]
    return cut_tail(_largest(tails, chance), chance) if tails else None


def notes_of_cut(cut: Cut, hop: str, now: int) -> list[FaultNote]:
    """What a torn tail took."""
    records = [record for batch in split_batches(cut.taken) for record in batch.records()]
    return notes_of(FaultNote(now, TORN_TAIL, hop, cut.tail.topic), records)


def end_of(segment: Path) -> int:
    """The offset behind the last whole batch of a segment that is being written."""
    found = split_batches(segment.read_bytes())
    return found[-1].header.next_offset if found else 0


def remove_middle(
    segment: Path, topic: str, first_offset: int, chance: random.Random, most: int
) -> Removed:
    """Take up to ``most`` records out of a segment, all at or behind ``first_offset`` and none of
    its last batch, after which the broker goes on."""
    found = split_batches(segment.read_bytes())
    chosen = [
        place for place, batch in enumerate(found[:-1]) if batch.header.base_offset >= first_offset
    ]
    taken: list[Record] = []
    parts = [bytes(batch.data) for batch in found]
    for place in sorted(chance.sample(chosen, min(len(chosen), _BATCHES))):
        batch, records = found[place], found[place].records()
        count = min(len(records), max(1, most // _BATCHES))
        gone = set(chance.sample(range(len(records)), count))
        taken += picked(records, gone)
        parts[place] = cut_out(batch, gone)
    if taken:
        segment.write_bytes(b"".join(parts))
        forget_indexes(segment)
    return Removed(topic, tuple(taken))


def forget_indexes(segment: Path) -> None:
    """Remove a segment's indexes; the broker makes them anew."""
    for suffix in _INDEXES:
        segment.with_suffix(suffix).unlink(missing_ok=True)


def notes_of_removed(removed: Removed, hop: str, now: int) -> list[FaultNote]:
    """What was taken out."""
    if not removed.records:
        return []
    return notes_of(FaultNote(now, CUT_OUT, hop, removed.topic), removed.records)


def _largest(tails: list[UnflushedTail], chance: random.Random) -> UnflushedTail:
    """One of the longer half: the shorter ones may hold next to nothing."""
    ordered = sorted(tails, key=lambda tail: tail.size)
    return chance.choice(ordered[len(ordered) // 2 :])
