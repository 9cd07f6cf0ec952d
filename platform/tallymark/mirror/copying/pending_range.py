"""A range of source offsets that was sent and waits for its acknowledgement, in one or several
batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallymark.mirror.progress import Partition, PartitionCopy, Range


@dataclass(slots=True)
class PendingRange:
    """Offsets [``first``, ``end``) of ``partition``; ``ranges`` are those that hold messages, in
    ``records`` records. ``oldest`` is a timestamp in ms: the smallest, or that of the first record
    where the others were not decoded."""

    partition: Partition
    copy: PartitionCopy
    first: int
    end: int
    oldest: int
    ranges: Sequence[Range]
    records: int
    whole: bool = False
    """Copied as it was, without decoding."""
    size: int = 0
    """Bytes on the wire."""
    cut_count: int = 0
    open: int = 0
    """Batches that are not settled yet."""
    target: Partition | None = None
    """The target's topic and partition, if it went there in one batch."""
    base_offset: int = -1
    """Its offset in the target, if it went there in one batch and the target returned it; else -1.
    """
    _batches: int = 0
    _failed: bool = False

    def settled(self, error: Exception | None, base_offset: int) -> bool:
        """One batch of it was acknowledged or refused. Returns whether that settles the range.
        Called in the target's I/O thread."""
        self.open -= 1
        self._batches += 1
        self.base_offset = base_offset if self._batches == 1 else -1
        if error is not None:
            first, self._failed = not self._failed, True
            return first
        return self.open == 0 and not self._failed
