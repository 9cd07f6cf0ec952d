"""Which records a compaction keeps. Pure: batches and the offset map in, bytes out.

======================================  ========================================================
a record with a later one of its key    is removed
the last record of a key                stays
a tombstone (null value), the last      stays until the delete horizon of its batch has passed
a record without a key                  stays: no later record can replace it. (New
                                        ones are refused; these are from before the topic was
                                        compacted. Kafka drops them.)
a record of an aborted transaction      is removed
a marker of a transaction               stays while records of the transaction do, then until the
                                        delete horizon that it gets has passed
another control batch                   stays as it is
a batch whose records do not decode     stays as it is: its keys are not known
a batch that holds too much             stays as it is (see :func:`open_batch`)
at or behind the end of the map         stays as it is until the next compaction
======================================  ========================================================

A batch that loses all its records is removed. Two kinds stay as an empty batch: the last one of a
producer that may continue (its sequences continue from there), and the last one of a segment (so
that a segment reaches up to the next one, and a gap between two is always damage).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.log.compaction.batch import delete_horizon, empty_batch, rewrite
from tallymark.log.compaction.offset_map import OffsetMap
from tallymark.log.compaction.transactions import Transactions
from tallymark.protocol.records.batch import (
    Batch,
    BatchHeader,
    Record,
    RecordStretches,
    read_header,
)
from tallymark.protocol.records.compression import DecompressedTooLargeError
from tallymark.protocol.schema import Buffer

_LAST_TIME: Final = 2**63 - 1


def open_batch(batch: Batch) -> RecordStretches:
    """The records of a batch, decompressed in parts. In all they may take 64 MiB, or 16 times the
    size of the batch where that is more (256 MiB at most): a few bytes may decompress to gigabytes,
    and a producer of one topic must not use up the memory of all.

    Raises DecompressedTooLargeError for more, CorruptRecordError for what does not decompress."""
    return batch.stretches(batch.usual_max_size)


@dataclass(slots=True)
class Tally:
    """The counts of a compaction so far. ``undecodable`` and ``too_large`` count batches that stay
    as they are; ``last_whole`` is the offset of the last of these, -1 without one."""

    records: int = 0
    removed: int = 0
    undecodable: int = 0
    too_large: int = 0
    last_whole: int = -1


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """``until``: the offset after the last one in the map. ``producers``: of each producer that may
    continue, the offset of its last record. Times are ms."""

    offsets: OffsetMap
    until: int
    producers: Mapping[int, int]
    now_ms: int
    delete_retention_ms: int
    transactions: Transactions = field(default_factory=Transactions)
    tally: Tally = field(default_factory=Tally)

    def __call__(self, batch: Batch, *, last: bool) -> Buffer:
        """The bytes that replace the batch, none where it is removed. ``last``: it is the last one
        of its segment. Where nothing changes it returns the bytes of the batch itself."""
        header = batch.header
        if header.base_offset >= self.until:
            return batch.data
        if header.is_control:
            return self._marker(batch, last)
        if self.transactions.hide(header):
            self.tally.records += header.record_count
            self.tally.removed += header.record_count
            return self._without_records(batch, last)
        kept = self._of_producer(batch, last)
        if len(kept) and read_header(kept).record_count:
            self.transactions.keep(header)
        return kept

    def _marker(self, batch: Batch, last: bool) -> Buffer:
        header = batch.header
        if not header.is_transactional or self.transactions.end(header):
            return batch.data
        horizon = delete_horizon(header)
        if horizon is None:
            return rewrite(header, batch.records(), self._new_horizon())
        if horizon > self.now_ms:
            return batch.data
        return empty_batch(header) if last else b""

    def _new_horizon(self) -> int:
        return min(self.now_ms + self.delete_retention_ms, _LAST_TIME)

    def _of_producer(self, batch: Batch, last: bool) -> Buffer:
        header = batch.header
        horizon = delete_horizon(header)
        expired = horizon is not None and horizon <= self.now_ms
        try:
            records = open_batch(batch)
            flags, tombstones = self._choose(records, expired)
        except DecompressedTooLargeError:
            self.tally.too_large += 1
            self.tally.last_whole = header.base_offset
            return batch.data
        except RemoteProtocolError:
            self.tally.undecodable += 1
            self.tally.last_whole = header.base_offset
            return batch.data
        kept = flags.count(1)
        self.tally.records += len(flags)
        self.tally.removed += len(flags) - kept
        if not kept:
            return self._without_records(batch, last)
        if not tombstones:
            horizon = None
        elif horizon is None:
            horizon = self._new_horizon()
        if kept == len(flags) and horizon == delete_horizon(header):
            return batch.data
        return rewrite(header, compress(records.records(), flags), horizon)

    def _choose(self, records: RecordStretches, expired: bool) -> tuple[bytearray, bool]:
        """Of each record 1 where it stays, else 0; and whether some that stay are tombstones."""
        flags = bytearray()
        tombstones = False
        for record in records.records():
            stays = self._stays(record, expired)
            flags.append(stays)
            if stays and record.value is None and record.key is not None:
                tombstones = True
        return flags, tombstones

    def _stays(self, record: Record, expired: bool) -> bool:
        if record.key is None:
            return True
        if self.offsets.last(record.key) > record.offset:
            return False
        # Of a batch that the map has only a part of: what lies before an unmapped tombstone may
        # hold older values of its key.
        return not (expired and record.value is None and record.offset < self.until)

    def _without_records(self, batch: Batch, last: bool) -> Buffer:
        header = batch.header
        if not (last or self._is_remembered(header)):
            return b""
        return empty_batch(header) if header.record_count else batch.data

    def _is_remembered(self, header: BatchHeader) -> bool:
        return (
            header.producer_id >= 0 and self.producers.get(header.producer_id) == header.last_offset
        )
