"""What interceptors are given of a sealed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallymark.protocol.schema import Buffer


@dataclass(frozen=True, slots=True)
class BatchTally:
    """The stamped records of one sealed batch: sequences ``first_sequence`` and on, one each.

    ``timestamps`` are milliseconds since the epoch, one per record in sequence order. ``sizes`` is
    the sum of the lengths of all keys and values in bytes, after encoding, before compression.
    The same object is given to every call about the batch.
    """

    topic: str
    partition: int
    instance: bytes
    server: str
    first_sequence: int
    timestamps: Sequence[int]
    sizes: int
    backfill: bool
    span: tuple[int, int] | None = None
    """The smallest and the largest of the timestamps, where that is known already."""
    values: Sequence[Buffer | None] | None = None
    """One a record, encoded; they may be looked at during the calls about the batch, and must not
    be kept: the batch is where they live. None: they are not shown."""
    keys: Sequence[Buffer | None] | None = None
    """As ``values``; None where no record has a key."""

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.timestamps)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record."""
        return self.first_sequence + len(self.timestamps) - 1
