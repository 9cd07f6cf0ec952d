"""What is read of one portion of a plan, just before it is copied: what is upstream, and what is
downstream already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallymark.client.core.partition_layout import Layout
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import LATEST
from tallymark_audit.collector.judging.locate import OffsetRange, records_in
from tallymark_audit.model.log_reader import LogReader, partitions_of
from tallymark_audit.repair.decide import superseded_in
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.upstream import (
    Clusters,
    Reader,
    RecordId,
    UpstreamRecord,
    record_id,
    upstream_records,
)


@dataclass(slots=True)
class Downstream:
    """Which of the messages are downstream, and, of a compacted topic, the timestamp (ms) of the
    newest other record of each of their keys."""

    present: set[RecordId] = field(default_factory=set[RecordId])
    newest: dict[bytes, int] = field(default_factory=dict[bytes, int])


@dataclass(frozen=True, slots=True)
class Portion:
    """``sources``: the records to copy, as they are upstream. ``superseded``: those of which a
    later record upstream has the key, where the topic is compacted on either side."""

    layout: Layout
    sources: Mapping[RecordId, UpstreamRecord]
    superseded: set[RecordId]
    downstream: Downstream


def read_portion(items: Sequence[RepairItem], clusters: Clusters) -> Portion:
    """Read what is needed to decide. KafkaError: a cluster refuses, or lacks the topic;
    ConnectError: it cannot be reached."""
    first = items[0]
    upstream, downstream = clusters.reader(first.upstream), clusters.reader(first.downstream)
    layout = layout_of(first, upstream, downstream)
    sources = upstream_records(upstream, items)
    compacted = clusters.compacted(first.upstream, first.key.topic) or clusters.compacted(
        first.downstream, first.topic
    )
    superseded = _superseded(upstream, first.key.topic, sources) if compacted else set[RecordId]()
    # Last, as late as can be: what arrived since the plan was made is not copied again.
    there = _read_downstream(downstream, items, sources if compacted else {}, layout)
    return Portion(layout, sources, superseded, there)


def layout_of(item: RepairItem, upstream: LogReader, downstream: LogReader) -> Layout:
    """The partitions of the item's topic downstream: the record goes where the mirror puts it.
    KafkaError: the topic is not there."""
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
    """The partitions downstream in which records of the items may be already."""
    if not layout.keeps:
        return list(range(layout.partitions))
    return sorted({stretch.partition for item in items for stretch in item.within})


def _superseded(
    reader: LogReader, topic: str, sources: Mapping[RecordId, UpstreamRecord]
) -> set[RecordId]:
    found: set[RecordId] = set()
    for partition in sorted({source.partition for source in sources.values()}):
        mine = {at: one.record for at, one in sources.items() if one.partition == partition}
        first = min(record.offset for record in mine.values())
        (end,) = reader.get_offsets_before(topic, partition, LATEST)
        behind = records_in(reader, topic, OffsetRange(partition, first, end - 1))
        found |= superseded_in(mine, behind)
    return found


def _read_downstream(
    reader: Reader,
    items: Sequence[RepairItem],
    keyed: Mapping[RecordId, UpstreamRecord],
    layout: Layout,
) -> Downstream:
    """What is there, and the newest records of the keys of ``keyed``. A copied record lies at the
    end of the log, far from its neighbours, so all is read from the first record of the oldest
    window on."""
    found = Downstream()
    keys = {source.record.key for source in keyed.values()}
    wanted = {
        (item.key.instance, item.key.partition, sequence)
        for item in items
        for first, last in item.missing
        for sequence in range(first, last + 1)
    }
    topic, since = items[0].topic, max(0, min(item.key.window for item in items))
    for partition in possible_partitions(layout, items):
        begin = reader.offset_for_time(topic, partition, since)
        (end,) = reader.get_offsets_before(topic, partition, LATEST)
        if begin is None:
            continue
        for record in records_in(reader, topic, OffsetRange(partition, begin, end - 1)):
            stamp = stamp_of(record.headers)
            if isinstance(stamp, Stamp) and record_id(stamp) in wanted:
                found.present.add(record_id(stamp))
            elif record.key is not None and record.key in keys:
                newest = found.newest.get(record.key, -1)
                found.newest[record.key] = max(newest, record.timestamp)
    return found
