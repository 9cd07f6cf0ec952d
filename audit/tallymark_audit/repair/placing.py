"""Into which partition a record is repaired: the one the mirror puts it into."""

from __future__ import annotations

from collections.abc import Iterable

from tallymark.client.core.partition_layout import Layout
from tallymark.errors import CODES, KafkaError
from tallymark_audit.model.log_reader import LogReader, partitions_of
from tallymark_audit.repair.items import RepairItem


def layout_of(item: RepairItem, upstream: LogReader, downstream: LogReader) -> Layout:
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
    return Layout(item.topic, count, keeps=not item.by_key and count >= needed)


def possible_partitions(layout: Layout, items: Iterable[RepairItem]) -> list[int]:
    """Where records of the items may be already."""
    if not layout.keeps:
        return list(range(layout.partitions))
    return sorted({stretch.partition for item in items for stretch in item.within})
