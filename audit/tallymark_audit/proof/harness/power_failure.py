"""A power failure, made outside the code under test: cut what a dead broker had not flushed.

A broker appends to ``<data>/<topic>-<partition>/<base offset, 20 digits>.log`` and remembers in
``<data>/recovery-point-offset-checkpoint`` up to which offset each log is flushed (Kafka's format:
a version line, a count line, then ``topic partition offset`` lines). What lies behind that offset
is only in the page cache: a process kill keeps it, a power failure may take any tail of it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import HEADER_SIZE, read_header

CHECKPOINT = "recovery-point-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class UnflushedTail:
    """The end of a partition's newest segment that only the page cache holds: bytes ``start`` to
    ``end`` of ``segment``."""

    topic: str
    partition: int
    segment: Path
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Cut:
    """A tail that was cut at byte ``position``; ``taken`` is what stood behind the last batch that
    is still whole, so also the front half of a torn one."""

    tail: UnflushedTail
    position: int
    taken: bytes


def unflushed_tails(data_dir: Path) -> list[UnflushedTail]:
    """Every partition of a broker's data folder that has something to lose; not internal topics."""
    flushed = _read_checkpoint(data_dir / CHECKPOINT)
    tails: list[UnflushedTail] = []
    for folder in sorted(path for path in data_dir.iterdir() if path.is_dir()):
        topic, _, number = folder.name.rpartition("-")
        segments = sorted(folder.glob("[0-9]*.log"))
        if not topic or topic.startswith("_") or not number.isdigit() or not segments:
            continue
        newest = segments[-1]
        batches = _batch_positions(newest.read_bytes())
        recovery_point = flushed.get((topic, int(number)), 0)
        lost = [place for place, next_offset in batches if next_offset > recovery_point]
        if lost:
            size = newest.stat().st_size
            tails.append(UnflushedTail(topic, int(number), newest, lost[0], size))
    return tails


def cut_tail(tail: UnflushedTail, chance: random.Random) -> Cut:
    """Cut the tail at a random byte, as a power failure does; what is gone is returned."""
    position = chance.randrange(tail.start, tail.end)
    content = tail.segment.read_bytes()
    whole = max(
        (place for place, _ in _batch_positions(content) if place <= position), default=tail.start
    )
    with tail.segment.open("r+b") as segment:
        segment.truncate(position)
    return Cut(tail, position, content[whole:])


def flushed_through(partition: Path) -> int:
    """The offset before which the log in the folder ``<data>/<topic>-<partition>`` is flushed."""
    topic, _, number = partition.name.rpartition("-")
    return _read_checkpoint(partition.parent / CHECKPOINT).get((topic, int(number)), 0)


def _batch_positions(content: bytes) -> list[tuple[int, int]]:
    """(byte position, next offset) of every whole batch."""
    found: list[tuple[int, int]] = []
    position = 0
    while position + HEADER_SIZE <= len(content):
        try:
            header = read_header(content, position)
        except CorruptRecordError:
            break
        if position + header.size > len(content):
            break
        found.append((position, header.next_offset))
        position += header.size
    return found


def _read_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()[2:]
    rows = [line.rsplit(" ", 2) for line in lines if line.strip()]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
