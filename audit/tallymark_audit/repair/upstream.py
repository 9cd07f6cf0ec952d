"""What upstream still has of the messages to copy. It is checked before a plan is shown, and again
before anything is copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tallymark.client import Producer
from tallymark.client.producing.stamps import Stamp
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.records.batch import Record
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_audit.collector.judging.locate import OffsetRange, records_between
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.repair.reloads import is_reload

PORTION: Final = 5_000
"""Messages in memory at a time, unless one cell has more."""
NEAR: Final = 5_000
"""Offsets between two stretches that are read as one."""
RecordOrigin = tuple[str, int]
"""Instance as hex, origin partition."""
RecordId = tuple[str, int, int]
"""The same and the sequence: names a message in any log."""


class Reader(LogReader, Protocol):
    """A cluster to read from; SimpleConsumer is one."""

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None: ...


class Clusters(Protocol):
    """Opens clusters by name."""

    def reader(self, cluster: str) -> Reader: ...
    def producer(self, cluster: str) -> Producer: ...
    def compacted(self, cluster: str, topic: str) -> bool:
        """Whether the topic keeps only the latest record of each key."""
        ...


class UpstreamRecord(NamedTuple):
    """A record with the partition it lies in upstream."""

    partition: int
    record: Record


class UpstreamCheck(NamedTuple):
    """What upstream has of an item now: the sequences that are ``there``, and that are ``gone``.
    ``reason`` says why they are gone, or why upstream could not be read."""

    item: RepairItem
    there: RangeSet = EMPTY
    gone: RangeSet = EMPTY
    reason: str = ""

    @property
    def promise(self) -> str:
        """What a repair would do with the item, as upstream is now."""
        item = self.item
        copy = f"copy {self.there.size} from {item.upstream} to {item.downstream} {item.topic}"
        if is_reload(item):
            copy = (
                f"load {self.there.size} from {item.upstream} again: tallymark load --repair PLAN"
            )
        if self.there:
            return f"{copy}; {self.reason}" if self.reason else copy
        return f"not possible: {self.reason}" if self.gone else self.reason


def check_upstream(plan: RepairPlan, clusters: Clusters) -> list[UpstreamCheck]:
    """For every item that is not refused, what of it can be copied. A cluster that cannot be read
    is a ``reason``, not an error."""
    found: list[UpstreamCheck] = []
    for portion in portions([item for item in plan.items if not item.refused]):
        try:
            reader = clusters.reader(portion[0].upstream)
            sources = upstream_records(reader, portion)
            found += [_checked(item, sources, reader) for item in portion]
        except TallymarkError as error:
            why = f"{portion[0].upstream} could not be looked at: {error}"
            found += [UpstreamCheck(item, reason=why) for item in portion]
    return found


def _checked(
    item: RepairItem, sources: Mapping[RecordId, UpstreamRecord], reader: LogReader
) -> UpstreamCheck:
    there = sequences_in(item, sources)
    gone = item.missing - there
    return UpstreamCheck(item, there, gone, why_gone(item, gone, reader) if gone else "")


def portions(items: Sequence[RepairItem]) -> Iterator[list[RepairItem]]:
    """The items in portions of a few thousand messages, in their order; each portion goes from one
    topic to one other."""
    portion: list[RepairItem] = []
    for item in items:
        if portion and (
            _route(item) != _route(portion[0]) or sum(i.count for i in portion) >= PORTION
        ):
            yield portion
            portion = []
        portion.append(item)
    if portion:
        yield portion


def _route(item: RepairItem) -> tuple[str, str, str, bool]:
    return item.edge, item.upstream, item.key.topic, bool(item.refused)


def upstream_records(
    reader: LogReader, items: Sequence[RepairItem]
) -> dict[RecordId, UpstreamRecord]:
    """The records to copy; of several copies the first. The exact places are read first, then the
    rest of the cells."""
    found: dict[RecordId, UpstreamRecord] = {}
    for exactly in (True, False):
        owing = [item for item in items if item.missing - sequences_in(item, found)]
        wanted: dict[RecordOrigin, RangeSet] = {}
        for item in owing:
            origin = item.key.instance, item.key.partition
            left = item.missing - sequences_in(item, found)
            wanted[origin] = wanted.get(origin, EMPTY) | left
        for stretch in _joined(
            OffsetRange(*place[:3])
            for item in owing
            for place in (item.places if exactly else item.within)
        ):
            for stamp, record in records_between(reader, items[0].key.topic, stretch, wanted):
                found.setdefault(record_id(stamp), UpstreamRecord(stretch.partition, record))
    return found


def _joined(stretches: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The stretches in order, those that lie near each other as one: a fetch costs more than the
    records between them do."""
    joined: list[OffsetRange] = []
    for stretch in sorted(stretches):
        before = joined[-1] if joined else None
        if before and before.partition == stretch.partition and stretch.first - before.last <= NEAR:
            joined[-1] = before._replace(last=max(before.last, stretch.last))
        else:
            joined.append(stretch)
    return joined


def why_gone(item: RepairItem, gone: RangeSet, reader: LogReader) -> str:
    """Why upstream no longer has them, as far as the log shows."""
    told = f"{gone.size} are no longer in {item.upstream}: sequences {gone}"
    for stretch in item.within:
        try:
            (start,) = reader.get_offsets_before(item.key.topic, stretch.partition, EARLIEST)
        except (KafkaError, ValueError):
            continue
        if start > stretch.first:
            return (
                f"{told} (retention: {item.key.topic}-{stretch.partition} begins at offset {start})"
            )
    return f"{told} (compacted, cut or made again)"


def sequences_in(
    item: RepairItem, identities: set[RecordId] | Mapping[RecordId, object]
) -> RangeSet:
    """The sequences of the item among them."""
    key = item.key
    return RangeSet.of(
        sequence
        for first, last in item.missing
        for sequence in range(first, last + 1)
        if (key.instance, key.partition, sequence) in identities
    )


def record_id(stamp: Stamp) -> RecordId:
    return stamp.instance.hex(), stamp.partition, stamp.sequence
