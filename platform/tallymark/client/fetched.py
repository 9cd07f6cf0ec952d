"""What is asked of and answered by a simple consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tallymark.protocol.records import Batch, Record

EARLIEST = -2
LATEST = -1


class FetchSpec(NamedTuple):
    """Where to read on: the records of a partition from ``offset``. ``last_epoch`` is the leader
    epoch of the last record read before it (``Fetched.last_epoch``), -1 when not known; with it
    the position is checked against a log that was cut meanwhile (KIP-320)."""

    topic: str
    partition: int
    offset: int
    last_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches from ``offset`` on (the first may begin before it).

    ``next_offset`` and ``last_epoch`` are what to ask with next. ``high_watermark`` is the offset
    behind the last record consumers may read, ``log_start_offset`` the first one there is (-1 when
    the broker did not say).
    """

    topic: str
    partition: int
    offset: int
    high_watermark: int
    log_start_offset: int
    batches: Sequence[Batch]
    next_offset: int
    last_epoch: int

    def records(self) -> list[Record]:
        """The records from ``offset`` on, decompressed, without transaction markers.

        Raises CorruptRecordError for a batch whose records do not decode.
        """
        found: list[Record] = []
        for batch in self.batches:
            if batch.header.is_control:
                continue
            records = batch.records()
            if batch.header.base_offset < self.offset:
                records = [record for record in records if record.offset >= self.offset]
            found += records
        return found
