"""Carry out a repair: read the missing messages upstream, look once more what is downstream, copy
the rest, in portions.

Whatever is downstream already is left alone, so a plan can be applied twice, after it broke off in
the middle, or after the mirror brought some of it. Records go where the mirror would put them, as
they are: key, value, timestamp and headers, the stamp among them, in the order they have upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tallymark.client import Producer
from tallymark.client.partition_layout import Layout
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import ConnectError, KafkaError, TallymarkError
from tallymark.protocol.records import Record
from tallymark_audit.collector.reading import EARLIEST, LATEST, LogReader
from tallymark_audit.locate import Stretch, records_between, records_in
from tallymark_audit.ranges import EMPTY, RangeSet
from tallymark_audit.repair.placing import layout_of, possible_partitions
from tallymark_audit.repair.plan import Item, Plan

DELIVERY_S: Final = 60.0
PORTION: Final = 5_000
"""Messages in memory at once, but for a cell that alone has more."""
NEAR: Final = 5_000
"""Offsets between two stretches that are read as one."""
Origin = tuple[str, int]
"""Instance as hex, origin partition."""
Identity = tuple[str, int, int]
"""The same and the sequence: a message, wherever it lies."""


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


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of one item. ``copied`` and ``present`` are sequences: copied now, and found to
    be there already; ``gone`` are no longer upstream; of ``superseded`` a later record has the key,
    in a compacted topic. ``reason`` says why anything is left."""

    item: Item
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


class _Source(NamedTuple):
    """A record with the partition it lies in upstream."""

    partition: int
    record: Record


@dataclass
class _Seen:
    """What is downstream: which of the messages, and later records of their keys."""

    present: set[Identity] = field(default_factory=set[Identity])
    newest: dict[bytes, int] = field(default_factory=dict[bytes, int])


def apply_plan(
    plan: Plan, clusters: Clusters, done: Callable[[Mended], object] = lambda _: None
) -> list[Mended]:
    """Carry the plan out; ``done`` hears of each item as it is finished. Trouble with one portion
    is the reason of its items and does not keep the others. ConnectError: a cluster cannot be
    reached; what was done is done, and the plan may be applied again."""
    results: list[Mended] = []
    for portion in _portions(plan.items):
        mended = (
            [Mended(item, reason=item.refused) for item in portion]
            if portion[0].refused
            else _apply(portion, clusters)
        )
        for one in mended:
            results.append(one)
            done(one)
    return results


def _portions(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items in their order that go from one topic to another, a few thousand messages at once."""
    portion: list[Item] = []
    for item in items:
        if portion and (
            _route(item) != _route(portion[0]) or sum(i.count for i in portion) >= PORTION
        ):
            yield portion
            portion = []
        portion.append(item)
    if portion:
        yield portion


def _route(item: Item) -> tuple[str, str, bool]:
    return item.edge, item.key.topic, bool(item.refused)


def _apply(items: list[Item], clusters: Clusters) -> list[Mended]:
    copied: set[Identity] = set()
    try:
        upstream, downstream = (
            clusters.reader(items[0].upstream),
            clusters.reader(items[0].downstream),
        )
        layout = layout_of(items[0], upstream, downstream)
        sources = _upstream(upstream, items)
        compacted = any(
            clusters.compacted(cluster, topic)
            for cluster, topic in (
                (items[0].upstream, items[0].key.topic),
                (items[0].downstream, items[0].topic),
            )
        )
        later = _later(upstream, items[0], sources) if compacted else set[Identity]()
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
        return [Mended(item, _of(item, copied), reason=str(error)) for item in items]
    return [
        _mended(item, upstream, copied, seen.present, sources, later, trouble) for item in items
    ]


def _upstream(reader: LogReader, items: Sequence[Item]) -> dict[Identity, _Source]:
    """The records to copy; of several copies the first. Where exactly they lie is asked first."""
    found: dict[Identity, _Source] = {}
    for exactly in (True, False):
        owing = [item for item in items if item.missing - _of(item, found)]
        wanted: dict[Origin, RangeSet] = {}
        for item in owing:
            origin = item.key.instance, item.key.partition
            left = item.missing - _of(item, found)
            wanted[origin] = wanted.get(origin, EMPTY) | left
        for stretch in _joined(
            Stretch(*place[:3])
            for item in owing
            for place in (item.places if exactly else item.within)
        ):
            for stamp, record in records_between(reader, items[0].key.topic, stretch, wanted):
                found.setdefault(_identity(stamp), _Source(stretch.partition, record))
    return found


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches in order, those that lie near each other as one: a fetch costs more than the
    records between them do."""
    joined: list[Stretch] = []
    for stretch in sorted(stretches):
        before = joined[-1] if joined else None
        if before and before.partition == stretch.partition and stretch.first - before.last <= NEAR:
            joined[-1] = before._replace(last=max(before.last, stretch.last))
        else:
            joined.append(stretch)
    return joined


def _downstream(
    reader: Reader,
    items: Sequence[Item],
    sources: Mapping[Identity, _Source],
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
        for record in records_in(reader, items[0].topic, Stretch(partition, first, end - 1)):
            stamp = stamp_of(record.headers)
            if isinstance(stamp, Stamp) and _identity(stamp) in wanted:
                seen.present.add(_identity(stamp))
            elif record.key is not None and record.key in keys:
                newest = seen.newest.get(record.key, -1)
                seen.newest[record.key] = max(newest, record.timestamp)
    return seen


def _later(reader: LogReader, item: Item, sources: Mapping[Identity, _Source]) -> set[Identity]:
    """Those of which a later record upstream has the key, unless that one is copied, too."""
    found: set[Identity] = set()
    for partition in sorted({source.partition for source in sources.values()}):
        mine = {
            identity: source.record
            for identity, source in sources.items()
            if source.partition == partition
        }
        by_key: dict[bytes | None, list[Identity]] = {}
        for identity, record in mine.items():
            by_key.setdefault(record.key, []).append(identity)
        copied = {record.offset for record in mine.values()}
        first = min(copied)
        (end,) = reader.get_offsets_before(item.key.topic, partition, LATEST)
        for record in records_in(reader, item.key.topic, Stretch(partition, first, end - 1)):
            if record.key in by_key and record.offset not in copied:
                stamp = stamp_of(record.headers)
                again = _identity(stamp) if isinstance(stamp, Stamp) else None
                found |= {
                    one
                    for one in by_key[record.key]
                    if mine[one].offset < record.offset and one != again
                }
    return found


def _outdated(sources: Mapping[Identity, _Source], seen: _Seen) -> set[Identity]:
    """Those of which downstream has a record of the key that is younger."""
    return {
        identity
        for identity, (_, record) in sources.items()
        if record.key is not None and seen.newest.get(record.key, -1) > record.timestamp
    }


def _copy(
    producer: Producer,
    item: Item,
    wanted: Mapping[Identity, _Source],
    layout: Layout,
    copied: set[Identity],
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


def _mended(
    item: Item,
    reader: LogReader,
    copied: set[Identity],
    present: set[Identity],
    sources: Mapping[Identity, _Source],
    later: set[Identity],
    trouble: str,
) -> Mended:
    there = _of(item, present)
    gone = item.missing - _of(item, sources) - there
    superseded = _of(item, later) - there
    reasons = [trouble] if item.missing - there - gone - superseded - _of(item, copied) else []
    if gone:
        reasons.append(_gone(item, gone, reader))
    if superseded:
        reasons.append(
            f"{item.topic} is compacted and a later record has the key: sequences {superseded}"
        )
    return Mended(item, _of(item, copied), there, gone, superseded, "; ".join(reasons))


def _gone(item: Item, gone: RangeSet, reader: LogReader) -> str:
    """Why upstream no longer has them, as far as the log tells."""
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


def _of(item: Item, identities: set[Identity] | Mapping[Identity, object]) -> RangeSet:
    """The sequences of the item among them."""
    key = item.key
    return RangeSet.of(
        sequence
        for first, last in item.missing
        for sequence in range(first, last + 1)
        if (key.instance, key.partition, sequence) in identities
    )


def _identity(stamp: Stamp) -> Identity:
    return stamp.instance.hex(), stamp.partition, stamp.sequence
