"""Into which partition a record is repaired: the one the mirror puts it into."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.murmur2 import partition_of
from tallymark_audit.collector.reading import LogReader, partitions_of
from tallymark_audit.repair.plan import Item


@dataclass(frozen=True, slots=True)
class Layout:
    """How a topic lies downstream. ``keeps``: what is in partition p upstream is in partition p;
    otherwise keys decide, as :class:`tallymark.mirror.topics.Layout` has it."""

    partitions: int
    keeps: bool

    def partition_of(self, key: bytes | None, source_partition: int) -> int:
        """Where a record goes."""
        if self.keeps:
            return source_partition
        if key is None:
            return source_partition % self.partitions
        return partition_of(key, self.partitions)

    def partitions_of(self, items: Iterable[Item]) -> list[int]:
        """Where records of the items may be already."""
        if not self.keeps:
            return list(range(self.partitions))
        return sorted({stretch.partition for item in items for stretch in item.within})


def layout_of(item: Item, upstream: LogReader, downstream: LogReader) -> Layout:
    """How the item's topic lies downstream. KafkaError: it is not there."""
    there = downstream.topics().get(item.topic)
    if there is None:
        code = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
        raise KafkaError(code, f"{item.downstream} has no topic {item.topic}, the mirror makes it")
    count = len(partitions_of(there))
    here = upstream.topics().get(item.key.topic)
    needed = max([stretch.partition + 1 for stretch in item.within], default=1)
    if here is not None:
        needed = max(needed, len(partitions_of(here)))
    return Layout(count, keeps=not item.by_key and count >= needed)
