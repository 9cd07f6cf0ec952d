"""Carry out a repair: look again, copy what is still missing, look again.

Whatever is downstream already is left alone, so a plan can be applied twice, or after the mirror
brought some of it. Records go to the partition they lie in upstream, as they are: key, value,
timestamp and headers, the stamp among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tallymark.client import Producer
from tallymark.errors import ConnectError, KafkaError, TallymarkError
from tallymark.protocol.records import Record
from tallymark_audit.collector.reading import LATEST, LogReader
from tallymark_audit.locate import Stretch, records_between
from tallymark_audit.ranges import EMPTY, RangeSet
from tallymark_audit.repair.plan import Item, Plan

DELIVERY_S: Final = 60.0


class Reader(LogReader, Protocol):
    """A cluster to read from; SimpleConsumer is one."""

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of one item. ``copied`` and ``present`` are sequences: copied now, and found to
    be there already; ``gone`` are no longer upstream. ``reason`` says why anything is left."""

    item: Item
    copied: RangeSet = EMPTY
    present: RangeSet = EMPTY
    gone: RangeSet = EMPTY
    reason: str = ""

    @property
    def outcome(self) -> str:
        """repaired, present (nothing was missing any more), partly, or refused."""
        if self.item.refused:
            return "refused"
        left = self.item.missing - self.copied - self.present
        if left:
            return "partly" if self.copied or self.present else "failed"
        return "repaired" if self.copied else "present"


class _Source(NamedTuple):
    """A record with the partition it lies in upstream."""

    partition: int
    record: Record


class Clusters(Protocol):
    """Opens clusters by name."""

    def reader(self, cluster: str) -> Reader: ...
    def producer(self, cluster: str) -> Producer: ...


def apply_plan(
    plan: Plan, clusters: Clusters, done: Callable[[Mended], object] = lambda _: None
) -> list[Mended]:
    """Carry the plan out, item by item; ``done`` hears of each as it is finished. Trouble with one
    item is its reason and does not keep the others. ConnectError: a cluster cannot be reached;
    what was done is done, and the plan may be applied again."""
    results: list[Mended] = []
    for item in plan.items:
        mended = Mended(item, reason=item.refused) if item.refused else _apply(item, clusters)
        results.append(mended)
        done(mended)
    return results


def _apply(item: Item, clusters: Clusters) -> Mended:
    try:
        reader = clusters.reader(item.downstream)
        present = _downstream(reader, item)
        wanted = item.missing - present
        if not wanted:
            return Mended(item, present=present)
        sources = _upstream(clusters.reader(item.upstream), item, wanted)
        gone = wanted - RangeSet.of(sources)
        _copy(clusters.producer(item.downstream), item.key.topic, sources)
        arrived = _downstream(reader, item) - present
    except ConnectError:
        raise
    except TallymarkError as error:
        return Mended(item, reason=str(error))
    return Mended(item, arrived, present, gone, _reason(item, wanted - arrived, gone))


def _reason(item: Item, left: RangeSet, gone: RangeSet) -> str:
    if gone:
        return f"{gone.size} of them are no longer in {item.upstream}: sequences {gone}"
    return f"{left.size} of them did not arrive: sequences {left}" if left else ""


def _downstream(reader: Reader, item: Item) -> RangeSet:
    """The sequences of the item that are downstream. A repaired record lies at the end of the log,
    far from its neighbours, so all is read from the window's first record on."""
    found: list[int] = []
    for partition in sorted({stretch.partition for stretch in item.within}):
        try:
            first = reader.offset_for_time(item.key.topic, partition, max(0, item.key.window))
            (end,) = reader.get_offsets_before(item.key.topic, partition, LATEST)
        except KafkaError as error:
            if error.name == "UNKNOWN_TOPIC_OR_PARTITION":
                continue
            raise
        if first is not None:
            stretch = Stretch(partition, first, end - 1)
            records = records_between(reader, item.key.topic, stretch, _wanted(item, item.missing))
            found += [stamp.sequence for stamp, _ in records]
    return RangeSet.of(found)


def _upstream(reader: LogReader, item: Item, wanted: RangeSet) -> dict[int, _Source]:
    """The records to copy, by sequence; of several copies the first."""
    found: dict[int, _Source] = {}
    for stretch in item.within:
        left = wanted - RangeSet.of(found)
        if not left:
            break
        for stamp, record in records_between(reader, item.key.topic, stretch, _wanted(item, left)):
            found.setdefault(stamp.sequence, _Source(stretch.partition, record))
    return found


def _wanted(item: Item, sequences: RangeSet) -> Mapping[tuple[str, int], RangeSet]:
    return {(item.key.instance, item.key.partition): sequences}


def _copy(producer: Producer, topic: str, sources: Mapping[int, _Source]) -> None:
    """Send in the order of the sequences, and wait until all are acknowledged."""
    deliveries = [
        producer.send(
            topic,
            record.value,
            key=record.key,
            partition=partition,
            timestamp=max(0, record.timestamp),
            headers=_headers(record.headers),
        )
        for _, (partition, record) in sorted(sources.items())
    ]
    for delivery in deliveries:
        delivery.result(DELIVERY_S)


def _headers(
    headers: Sequence[tuple[str, bytes | None]],
) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers]
