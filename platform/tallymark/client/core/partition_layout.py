"""How a topic lies at the other end of a mirror: which of its partitions a record goes to. The
mirror puts it there, and the audit's repair after it."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.protocol.murmur2 import partition_of


@dataclass(frozen=True, slots=True)
class Layout:
    """A source topic at the target, under its ``name`` there. ``keeps``: what is in partition p
    goes to partition p, so whole batches can pass; otherwise the key decides."""

    name: str
    partitions: int
    keeps: bool

    def partition_of(self, key: bytes | None, source_partition: int) -> int:
        """Where a record goes. Without a key those of one source partition stay together."""
        if self.keeps:
            return source_partition
        if key is None:
            return source_partition % self.partitions
        return partition_of(key, self.partitions)
