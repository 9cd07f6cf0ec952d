"""The tasks and the results of a compaction: values that go through a pipe as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tallymark.log.compaction.plan import ClosedSegment


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Clean the closed ``segments`` of the log in ``directory``, from its first on.

    ``first_dirty`` is where the map of keys begins; it holds what ``map_bytes`` of memory have room
    for. ``producers``: producer id -> offset of its last record. ``bytes_per_second`` bounds
    reading and writing together, -1: no bound. Times are ms.
    """

    directory: str
    segments: tuple[ClosedSegment, ...]
    first_dirty: int
    segment_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    now_ms: int
    map_bytes: int
    bytes_per_second: int = -1
    producers: Mapping[int, int] = field(default_factory=dict[int, int])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        known: dict[str, Any] = dict(fields)
        known["segments"] = tuple(ClosedSegment(*each) for each in fields["segments"])
        known["producers"] = {int(key): offset for key, offset in fields["producers"].items()}
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """One new segment, in the folder as ``.cleaned`` files that are on the disk: it takes the place
    of the segments with the base offsets ``sources``, the first of which is its own."""

    sources: tuple[int, ...]
    end_offset: int
    size: int

    @property
    def base_offset(self) -> int:
        return self.sources[0]


@dataclass(frozen=True, slots=True)
class Paused:
    """The time slice of this compaction is over; it continues where it is."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a compaction: clean up to ``until``. ``records`` were looked at, ``removed`` of
    them are gone; ``undecodable`` and ``too_large`` batches were kept as they are, the last of
    them at offset ``last_whole`` (-1 without one); sizes in bytes."""

    until: int
    records: int
    removed: int
    undecodable: int
    too_large: int
    last_whole: int
    bytes_before: int
    bytes_after: int
