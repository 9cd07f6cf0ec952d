"""Damage at rest, in the closed segments of a dead broker's log: what a disk does years later.

A closed segment is one behind which another has begun. All but one kind of damage leave a right
CRC, so the broker, the mirror and every reader take what is there; a broken CRC they do not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from tallymark.client.producing.stamps import Stamp, encode_stamp, stamp_of
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, Record, split_batches
from tallymark_audit.proof.drill.faults import batches
from tallymark_audit.proof.drill.faults.log_faults import forget_indexes
from tallymark_audit.proof.harness.power_failure import flushed_through

_CHANGED: Final = 8
"""Messages whose values change; half as many stamps."""


@dataclass(frozen=True, slots=True)
class Rotten:
    """What was done: ``records`` as they were; of a broken CRC those of the one batch, the last
    record before which was stamped at ``before`` (ms), and the first behind it at ``behind``."""

    segment: Path
    records: tuple[Record, ...]
    before: int = -1
    behind: int = 2**63 - 1

    @property
    def offset(self) -> int:
        """The first offset it was done to."""
        return self.records[0].offset


def closed_segments(partition: Path, older_than: int, first_offset: int = 0) -> list[Path]:
    """The segments of a partition's folder that are closed and flushed, have several batches, and
    whose records are all older than that time (ms) and at or behind ``first_offset``. Not the first
    of the log: without it the log would only begin later, as after retention."""
    segments = sorted(partition.glob("[0-9]*.log"))
    flushed = flushed_through(partition)
    return [
        segment
        for segment, behind in pairwise(segments[1:])
        if int(behind.stem) <= flushed
        and int(segment.stem) >= first_offset
        and len(found := _batches(segment)) > 1
        and all(one.header.max_timestamp < older_than for one in found)
    ]


def change_values(segment: Path, chance: random.Random) -> Rotten:
    """Turn a bit in the values of some messages."""
    picked = _some(segment, chance, _CHANGED)
    _rewrite(segment, {one.value: batches.damaged(one.value) for one in picked if one.value})
    return Rotten(segment, tuple(picked))


def change_stamps(segment: Path, chance: random.Random, window_ms: int) -> Rotten:
    """Let some messages bear the number of the message right behind: one is gone, another is there
    twice. Both are of one window, so that one cell shows it."""
    records = [record for batch in _batches(segment) for record in batch.records()]
    pairs = [
        (record, behind)
        for record, behind in zip(records[::2], records[1::2], strict=False)
        if _neighbours(record, behind) and _same_window(record, behind, window_ms)
    ]
    picked = chance.sample(pairs, min(len(pairs), _CHANGED // 2))
    _rewrite(segment, {_raw_stamp(record): _raw_stamp(behind) for record, behind in picked})
    return Rotten(segment, tuple(record for record, _ in picked))


def remove(segment: Path) -> Rotten:
    """The segment is gone, and its indexes with it."""
    records = tuple(record for batch in _batches(segment) for record in batch.records())
    segment.unlink()
    forget_indexes(segment)
    return Rotten(segment, records)


def break_crc(segment: Path, chance: random.Random) -> Rotten:
    """Turn a bit in the records of one batch, and leave its CRC as it was."""
    found = list(_batches(segment))
    number = chance.randrange(1, max(2, len(found) - 1))
    batch, before = found[number], found[number - 1]
    data = bytearray(segment.read_bytes())
    start = sum(one.header.size for one in found[:number])
    place = start + HEADER_SIZE + (batch.header.size - HEADER_SIZE) // 2
    data[place] ^= 0x10
    segment.write_bytes(data)
    behind = [one.header.max_timestamp for one in _behind(segment, found, number)[:1]]
    return Rotten(segment, tuple(batch.records()), before.header.max_timestamp, *behind)


def _behind(segment: Path, found: list[Batch], number: int) -> list[Batch]:
    """The batches behind that one, of the next segment where it is the segment's last."""
    if number + 1 < len(found):
        return found[number + 1 :]
    later = [one for one in sorted(segment.parent.glob("[0-9]*.log")) if one > segment]
    return _batches(later[0]) if later else []


def _batches(segment: Path) -> list[Batch]:
    return split_batches(segment.read_bytes())


def _some(segment: Path, chance: random.Random, most: int) -> list[Record]:
    records = [record for batch in _batches(segment) for record in batch.records()]
    return sorted(chance.sample(records, min(len(records), most)), key=lambda one: one.offset)


def _rewrite(segment: Path, parts: dict[bytes, bytes]) -> None:
    """Exchange byte strings that are each in the segment once."""
    left = dict(parts)
    written: list[bytes] = []
    for batch in _batches(segment):
        here = {old: left.pop(old) for old in _held(batch, left)}
        written.append(batches.exchanged(batch, here) if here else bytes(batch.data))
    segment.write_bytes(b"".join(written))
    forget_indexes(segment)


def _held(batch: Batch, parts: dict[bytes, bytes]) -> list[bytes]:
    return [
        part
        for record in batch.records()
        for part in (record.value, _raw_stamp(record))
        if part in parts
    ]


def _stamp(record: Record) -> Stamp | None:
    found = stamp_of(record.headers)
    return found if isinstance(found, Stamp) else None


def _raw_stamp(record: Record) -> bytes:
    found = _stamp(record)
    return encode_stamp(found) if found else b""


def _neighbours(record: Record, behind: Record) -> bool:
    """Whether they are one number apart, and both numbers take as much room."""
    one, other = _stamp(record), _stamp(behind)
    if one is None or other is None or replace(one, sequence=other.sequence) != other:
        return False
    as_long = len(str(one.sequence)) == len(str(other.sequence))
    return (
        other.sequence == one.sequence + 1
        and as_long
        and len(_raw_stamp(record)) == len(_raw_stamp(behind))
    )


def _same_window(record: Record, behind: Record, window_ms: int) -> bool:
    return record.timestamp // window_ms == behind.timestamp // window_ms
