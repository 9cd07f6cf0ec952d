"""Carry out a repair: read the missing messages upstream, look once more what is downstream, copy
the rest, in portions.

Whatever is downstream already is left alone, so a plan can be applied twice, after it broke off in
the middle, or after the mirror brought some of it. Records go where the mirror would put them, as
they are: key, value, timestamp and headers, the stamp among them, in the order they have upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.client import Producer
from tallymark.client.core.partition_layout import Layout
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import ConnectError, TallymarkError
from tallymark.protocol.topic_partition import LATEST
from tallymark_audit.collector.judging.locate import OffsetRange, records_in
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.placing import layout_of, possible_partitions
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.upstream import (
    Clusters,
    Reader,
    RecordId,
    UpstreamRecord,
    portions,
    record_id,
    sequences_in,
    upstream_records,
    why_gone,
)

DELIVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of one item. ``copied`` and ``present`` are sequences: copied now, and found to
    be there already; ``gone`` are no longer upstream; of ``superseded`` a later record has the key,
    in a compacted topic. ``reason`` says why anything is left."""

    item: RepairItem
    copied: RangeSet = EMPTY
    present: RangeSet = EMPTY
    gone: RangeSet = EMPTY
    superseded: RangeSet = EMPTY
    reason: str = ""

    @property
    def outcome(self) -> str:
        """repaired, present (nothing was missing any more), partly, failed or refused."""
        if self.item.refused:
            return "refused"
        if self.item.missing - self.copied - self.present:
            return "partly" if self.copied or self.present else "failed"
        return "repaired" if self.copied else "present"


@dataclass
class _Seen:
    """What is downstream: which of the messages, and later records of their keys."""

    present: set[RecordId] = field(default_factory=set[RecordId])
    newest: dict[bytes, int] = field(default_factory=dict[bytes, int])


def apply_plan(
    plan: RepairPlan, clusters: Clusters, done: Callable[[ItemResult], object] = lambda _: None
) -> list[ItemResult]:
    """Carry the plan out; ``done`` hears of each item as it is finished. Trouble with one portion
    is the reason of its items and does not keep the others. ConnectError: a cluster cannot be
    reached; what was done is done, and the plan may be applied again."""
    results: list[ItemResult] = []
    for portion in portions(plan.items):
        found = (
            [ItemResult(item, reason=item.refused) for item in portion]
            if portion[0].refused
            else _apply(portion, clusters)
        )
        for one in found:
            results.append(one)
            done(one)
    return results


def _apply(items: list[RepairItem], clusters: Clusters) -> list[ItemResult]:
    copied: set[RecordId] = set()
    try:
        upstream, downstream = (
            clusters.reader(items[0].upstream),
            clusters.reader(items[0].downstream),
        )
        layout = layout_of(items[0], upstream, downstream)
        sources = upstream_records(upstream, items)
        compacted = any(
            clusters.compacted(cluster, topic)
            for cluster, topic in (
                (items[0].upstream, items[0].key.topic),
                (items[0].downstream, items[0].topic),
            )
        )
        later = _later(upstream, items[0], sources) if compacted else set[RecordId]()
        # As late as can be: what came there since the plan was made is not copied again.
        seen = _downstream(downstream, items, sources, layout, compacted)
        later |= _outdated(sources, seen)
        wanted = {
            identity: source
            for identity, source in sources.items()
            if identity not in seen.present and identity not in later
        }
        trouble = _copy(clusters.producer(items[0].downstream), items[0], wanted, layout, copied)
    except ConnectError:
        raise
    except TallymarkError as error:
        return [ItemResult(item, sequences_in(item, copied), reason=str(error)) for item in items]
    return [
        _result(item, upstream, copied, seen.present, sources, later, trouble) for item in items
    ]


def _downstream(
    reader: Reader,
    items: Sequence[RepairItem],
    sources: Mapping[RecordId, UpstreamRecord],
    layout: Layout,
    compacted: bool,
) -> _Seen:
    """What is there. A copied record lies at the end of the log, far from its neighbours, so all
    is read from the first record of the oldest window on."""
    seen = _Seen()
    keys = {source.record.key for source in sources.values()} if compacted else set[bytes | None]()
    wanted = {
        (item.key.instance, item.key.partition, sequence)
        for item in items
        for first, last in item.missing
        for sequence in range(first, last + 1)
    }
    since = max(0, min(item.key.window for item in items))
    for partition in possible_partitions(layout, items):
        first = reader.offset_for_time(items[0].topic, partition, since)
        (end,) = reader.get_offsets_before(items[0].topic, partition, LATEST)
        if first is None:
            continue
        for record in records_in(reader, items[0].topic, OffsetRange(partition, first, end - 1)):
            stamp = stamp_of(record.headers)
            if isinstance(stamp, Stamp) and record_id(stamp) in wanted:
                seen.present.add(record_id(stamp))
            elif record.key is not None and record.key in keys:
                newest = seen.newest.get(record.key, -1)
                seen.newest[record.key] = max(newest, record.timestamp)
    return seen


def _later(
    reader: LogReader, item: RepairItem, sources: Mapping[RecordId, UpstreamRecord]
) -> set[RecordId]:
    """Those of which a later record upstream has the key, unless that one is copied, too."""
    found: set[RecordId] = set()
    for partition in sorted({source.partition for source in sources.values()}):
        mine = {
            identity: source.record
            for identity, source in sources.items()
            if source.partition == partition
        }
        by_key: dict[bytes | None, list[RecordId]] = {}
        for identity, record in mine.items():
            by_key.setdefault(record.key, []).append(identity)
        copied = {record.offset for record in mine.values()}
        first = min(copied)
        (end,) = reader.get_offsets_before(item.key.topic, partition, LATEST)
        for record in records_in(reader, item.key.topic, OffsetRange(partition, first, end - 1)):
            if record.key in by_key and record.offset not in copied:
                stamp = stamp_of(record.headers)
                again = record_id(stamp) if isinstance(stamp, Stamp) else None
                found |= {
                    one
                    for one in by_key[record.key]
                    if mine[one].offset < record.offset and one != again
                }
    return found


def _outdated(sources: Mapping[RecordId, UpstreamRecord], seen: _Seen) -> set[RecordId]:
    """Those of which downstream has a record of the key that is younger."""
    return {
        identity
        for identity, (_, record) in sources.items()
        if record.key is not None and seen.newest.get(record.key, -1) > record.timestamp
    }


def _copy(
    producer: Producer,
    item: RepairItem,
    wanted: Mapping[RecordId, UpstreamRecord],
    layout: Layout,
    copied: set[RecordId],
) -> str:
    """Send in the order upstream and wait for all to be acknowledged, which are in ``copied`` then;
    what went wrong with the others."""
    order = sorted(wanted.items(), key=lambda pair: (pair[1].partition, pair[1].record.offset))
    deliveries = [
        (
            identity,
            producer.send(
                item.topic,
                record.value,
                key=record.key,
                partition=layout.partition_of(record.key, partition),
                timestamp=max(0, record.timestamp),
                headers=list(record.headers),
            ),
        )
        for identity, (partition, record) in order
    ]
    trouble = ""
    for identity, delivery in deliveries:
        try:
            delivery.result(DELIVERY_S)
            copied.add(identity)
        except ConnectError:
            raise
        except TallymarkError as error:
            trouble = trouble or f"{item.downstream} did not take them: {error}"
    return trouble


def _result(
    item: RepairItem,
    reader: LogReader,
    copied: set[RecordId],
    present: set[RecordId],
    sources: Mapping[RecordId, UpstreamRecord],
    later: set[RecordId],
    trouble: str,
) -> ItemResult:
    there = sequences_in(item, present)
    gone = item.missing - sequences_in(item, sources) - there
    superseded = sequences_in(item, later) - there
    reasons = (
        [trouble] if item.missing - there - gone - superseded - sequences_in(item, copied) else []
    )
    if gone:
        reasons.append(why_gone(item, gone, reader))
    if superseded:
        reasons.append(
            f"{item.topic} is compacted and a later record has the key: sequences {superseded}"
        )
    return ItemResult(item, sequences_in(item, copied), there, gone, superseded, "; ".join(reasons))
