"""What must hold from one batch of a log to the next: offsets, leader epochs, and the sequences of
idempotent producers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.log.producers.state import last_sequence, next_sequence
from tallymark.protocol.records.batch import BatchHeader

_FORGOTTEN_MS: Final = 86_400_000
"""A broker forgets a producer that is idle for a day, and then accepts any sequence from it."""
_NEAR: Final = 2**30


class LastBatch(NamedTuple):
    """What is remembered of a producer."""

    epoch: int
    sequence: int
    timestamp: int


@dataclass(slots=True)
class Chain:
    """The log up to some batch. ``next_offset`` is what the next one begins with, -1 before the
    first; ``gaps`` allows missing offsets and sequences, as compaction leaves them."""

    gaps: bool
    next_offset: int = -1
    epoch: int = -1
    producers: dict[int, LastBatch] = field(default_factory=dict[int, LastBatch])

    def copy(self) -> Chain:
        """An independent copy."""
        return Chain(self.gaps, self.next_offset, self.epoch, dict(self.producers))

    def add(self, header: BatchHeader) -> Iterator[str]:
        """Add the next batch; yields what is wrong with it."""
        yield from self._check_offsets(header)
        if header.partition_leader_epoch < self.epoch:
            yield f"leader epoch {header.partition_leader_epoch} after {self.epoch}"
        if header.producer_id >= 0 and header.base_sequence >= 0 and not header.is_control:
            yield from self._check_sequences(header)
            self.producers[header.producer_id] = LastBatch(
                header.producer_epoch, last_sequence(header), header.max_timestamp
            )
        self.next_offset = max(header.next_offset, self.next_offset)
        self.epoch = max(header.partition_leader_epoch, self.epoch)

    def _check_offsets(self, header: BatchHeader) -> Iterator[str]:
        expected = self.next_offset
        if expected < 0:
            return
        if header.base_offset < expected:
            yield f"offset {header.base_offset} once more, {expected} is next"
        elif header.base_offset > expected and not self.gaps:
            yield f"offsets {expected} to {header.base_offset - 1} are missing"
        if header.record_count != header.last_offset_delta + 1 and not self.gaps:
            yield (
                f"{header.record_count} records for the offsets {header.base_offset} to "
                f"{header.last_offset}"
            )

    def _check_sequences(self, header: BatchHeader) -> Iterator[str]:
        last = self.producers.get(header.producer_id)
        if last is None:
            return
        producer = f"producer {header.producer_id} epoch {header.producer_epoch}"
        first = header.base_sequence
        if header.producer_epoch < last.epoch:
            yield f"{producer} after epoch {last.epoch}"
        elif header.producer_epoch > last.epoch:
            if first != 0 and not self.gaps:
                yield f"{producer} begins with sequence {first}"
        elif first != (expected := next_sequence(last.sequence)):
            if header.max_timestamp - last.timestamp >= _FORGOTTEN_MS:
                return
            if (expected - first) % 2**31 < _NEAR:
                yield f"{producer}: sequence {first} once more, {expected} is next"
            elif not self.gaps:
                yield f"{producer}: sequence {first}, {expected} is next"
