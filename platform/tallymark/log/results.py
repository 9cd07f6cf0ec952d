"""The results that a log returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tallymark.log.disk.files import FileSlice
from tallymark.log.disk.partition_folder import LogKey


class AppendInfo(NamedTuple):
    """The inclusive offsets of a batch. ``duplicate``: it was in the log before. ``append_time_ms``
    is the broker's time in its records, -1 where they have the producer's."""

    first_offset: int
    last_offset: int
    duplicate: bool
    max_timestamp: int
    append_time_ms: int = -1


class Copied(NamedTuple):
    """What a follower has written of a leader's batches: ``records`` offsets in ``batches`` batches
    of ``bytes`` bytes."""

    batches: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole batches. The first holds the requested offset and may begin before it; the next read
    begins at ``next_offset``. Empty data: the offset is the end of the log."""

    data: bytes | FileSlice
    next_offset: int

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        """The bytes."""
        return self.data if isinstance(self.data, bytes) else self.data.read()


class LogInfo(NamedTuple):
    """One log of a data directory; ``size`` are the bytes of its segments."""

    partition: LogKey
    size: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class DirInfo:
    """A data directory. ``error`` says how its disk failed, None while it works; then the bytes of
    the disk are not known (-1) and ``logs`` are those that were open."""

    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    logs: tuple[LogInfo, ...]
