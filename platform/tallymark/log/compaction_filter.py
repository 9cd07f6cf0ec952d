"""Which records a compaction keeps. Pure: batches and the offset map in, bytes out.

======================================  ========================================================
a record with a later one of its key    goes
the last record of a key                stays
a tombstone (null value), the last      stays until the delete horizon of its batch has passed
a record without a key                  stays: nothing says that a later record replaces it. (New
                                        ones are refused; these are from before the topic was
                                        compacted. Kafka drops them.)
a control batch                         stays as it is
a batch whose records do not decode     stays as it is: nobody can say what it holds
at or behind the end of the map         stays as it is, the next compaction looks at it
======================================  ========================================================

A batch that loses all its records goes, but for two that stay as an empty batch: the last one of a
producer that may go on (its sequences continue from there), and the last one of a segment (so that
a segment reaches up to the next one, and a hole between two is always a damage).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.log.compaction_batch import delete_horizon, empty_batch, rewrite
from tallymark.log.compaction_map import OffsetMap
from tallymark.protocol.records import Batch, BatchHeader, Record
from tallymark.protocol.schema import Buffer

_LAST_TIME: Final = 2**63 - 1


@dataclass(slots=True)
class Tally:
    """What a compaction has seen and kept so far."""

    records: int = 0
    removed: int = 0
    undecodable: int = 0


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """``until``: the offset behind the last one in the map. ``producers``: of each producer that
    may go on, the offset of its last record. Times are ms."""

    offsets: OffsetMap
    until: int
    producers: Mapping[int, int]
    now_ms: int
    delete_retention_ms: int
    tally: Tally = field(default_factory=Tally)

    def __call__(self, batch: Batch, *, last: bool) -> Buffer:
        """The bytes that take the batch's place, none where it goes. ``last``: it is the last one
        of its segment. Where nothing changes the very bytes of the batch come back."""
        header = batch.header
        if header.base_offset >= self.until or header.is_control:
            return batch.data
        try:
            records = batch.records()
        except RemoteProtocolError:
            self.tally.undecodable += 1
            return batch.data
        horizon = delete_horizon(header)
        expired = horizon is not None and horizon <= self.now_ms
        kept = [record for record in records if self._stays(record, expired)]
        self.tally.records += len(records)
        self.tally.removed += len(records) - len(kept)
        if not kept:
            return self._without_records(batch, last)
        if any(record.value is None and record.key is not None for record in kept):
            if horizon is None:
                horizon = min(self.now_ms + self.delete_retention_ms, _LAST_TIME)
        else:
            horizon = None
        if len(kept) == len(records) and horizon == delete_horizon(header):
            return batch.data
        return rewrite(header, kept, horizon)

    def _stays(self, record: Record, expired: bool) -> bool:
        if record.key is None:
            return True
        if self.offsets.last(record.key) > record.offset:
            return False
        return not (expired and record.value is None)

    def _without_records(self, batch: Batch, last: bool) -> Buffer:
        header = batch.header
        if not (last or self._is_remembered(header)):
            return b""
        return empty_batch(header) if header.record_count else batch.data

    def _is_remembered(self, header: BatchHeader) -> bool:
        return (
            header.producer_id >= 0 and self.producers.get(header.producer_id) == header.last_offset
        )
