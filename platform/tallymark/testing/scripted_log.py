"""One partition of a scripted broker: a list of batches that can be cut."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tallymark.errors import CODES
from tallymark.protocol.messages import FetchResponsePartition
from tallymark.protocol.records.batch import Batch, Record, place_batch, split_batches


@dataclass(slots=True)
class MemoryLog:
    """One partition: its batches, and what it remembers of its producers."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """(leader epoch, where it begins)."""
    producers: dict[int, deque[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Producer id -> (epoch, first sequence, last sequence, base offset) of its last 5 batches."""

    @property
    def end(self) -> int:
        """The next offset."""
        return self.batches[-1].header.next_offset if self.batches else self.start

    def records(self) -> list[Record]:
        """All records, in order."""
        return [record for batch in self.batches for record in batch.records()]

    def append(self, batch: Batch) -> tuple[int, int]:
        """(error code, base offset)."""
        batch.check_crc()
        code, offset = self._check_sequence(batch)
        if code or offset >= 0:
            return code, offset
        data = bytearray(batch.data)
        place_batch(data, 0, self.end, self.epochs[-1][0])
        (placed,) = split_batches(data)
        self.batches.append(placed)
        self._remember(placed)
        return 0, placed.header.base_offset

    def cut(self, offset: int, *, new_epoch: bool = True) -> None:
        """Lose every batch from ``offset`` on, and what was remembered of their producers."""
        self.batches = [b for b in self.batches if b.header.next_offset <= offset]
        self.producers.clear()
        for batch in self.batches:
            self._remember(batch)
        if new_epoch:
            self.epochs = [one for one in self.epochs if one[1] < self.end or one[1] == 0]
            self.epochs.append((self.epochs[-1][0] + 1, self.end))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """(epoch, where it ends) for the largest epoch that is not above ``epoch``."""
        known = [one for one in self.epochs if one[0] <= epoch]
        if not known:
            return epoch, self.epochs[0][1]
        later = [start for number, start in self.epochs if number > epoch]
        return known[-1][0], later[0] if later else self.end

    def _check_sequence(self, batch: Batch) -> tuple[int, int]:
        """(error, -1), (0, offset of the batch it repeats), or (0, -1) for a new one."""
        header = batch.header
        recent = self.producers.get(header.producer_id)
        if header.producer_id < 0 or not recent:
            return 0, -1
        last = header.base_sequence + header.record_count - 1
        for epoch, first, final, offset in recent:
            if (epoch, first, final) == (header.producer_epoch, header.base_sequence, last):
                return 0, offset
        if header.producer_epoch < recent[-1][0]:
            return CODES["INVALID_PRODUCER_EPOCH"], -1
        begins = header.producer_epoch > recent[-1][0]  # a new epoch numbers from 0
        if header.base_sequence != (0 if begins else recent[-1][2] + 1):
            return CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"], -1
        return 0, -1

    def _remember(self, batch: Batch) -> None:
        header = batch.header
        if header.producer_id >= 0:
            recent = self.producers.setdefault(header.producer_id, deque(maxlen=5))
            last = header.base_sequence + header.record_count - 1
            recent.append((header.producer_epoch, header.base_sequence, last, header.base_offset))


def read_partition(
    log: MemoryLog, partition: int, offset: int, max_bytes: int
) -> FetchResponsePartition:
    """What a fetch of one partition answers."""
    if not log.start <= offset <= log.end:
        return FetchResponsePartition(
            partition_index=partition, error_code=1, high_watermark=log.end
        )
    data = bytearray()
    for batch in log.batches:
        if batch.header.last_offset >= offset:
            if data and len(data) + len(batch.data) > max_bytes:
                break
            data += batch.data
    return FetchResponsePartition(
        partition_index=partition,
        high_watermark=log.end,
        last_stable_offset=log.end,
        log_start_offset=log.start,
        records=bytes(data),
    )


def find_time(log: MemoryLog, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp) of the first record at or after a time, or of an end (-1, -2)."""
    if timestamp == -1:
        return log.end, -1
    if timestamp == -2:
        return log.start, -1
    found = (record for record in log.records() if record.timestamp >= timestamp)
    first = next(found, None)
    return (-1, -1) if first is None else (first.offset, first.timestamp)
