"""The partition of a mirror's target topic that a record goes to. The mirror uses it to copy, the
audit's repair to copy missing records later."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.protocol.murmur2 import partition_of


@dataclass(frozen=True, slots=True)
class Layout:
    """A source topic at the target, under its ``name`` there. ``keeps``: records of partition p go
    to partition p, so whole batches can be copied; otherwise the key decides."""

    name: str
    partitions: int
    keeps: bool

    def partition_of(self, key: bytes | None, source_partition: int) -> int:
        """The target partition of a record. Records without a key go to one target partition for
        each source partition."""
        if self.keeps:
            return source_partition
        if key is None:
            return source_partition % self.partitions
        return partition_of(key, self.partitions)
