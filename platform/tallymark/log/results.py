"""What a log answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tallymark.log.files import FileSlice


class AppendInfo(NamedTuple):
    """Where a batch stands: inclusive offsets. ``duplicate``: it stood there before."""

    first_offset: int
    last_offset: int
    duplicate: bool
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole batches. The first holds the offset that was asked for and may begin before it; the
    next read goes on at ``next_offset``. Empty data: the offset is the end of the log."""

    data: bytes | FileSlice
    next_offset: int

    def __len__(self) -> int:
        return len(self.data)

    def read(self) -> bytes:
        """The bytes."""
        return self.data if isinstance(self.data, bytes) else self.data.read()
