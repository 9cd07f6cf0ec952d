"""Two clusters in memory between which a repair copies, and a store with verdicts about them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from tallymark.client import RecordMetadata
from tallymark.client.producing.stamps import Stamp, decode_stamp, encode_stamp
from tallymark.errors import ConnectError
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.store import Store
from tallymark_audit.store.counted import counts
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.testing import MemoryCluster

INSTANCE = b"instance"
KEY = CellKey("t", 0, 60_000, "web", INSTANCE.hex())
MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
HOME = Edge("producer-to-dc1", "producer", "dc1", "producer")
LOST = CellVerdict(KEY, State.LOSS, 10, 8, RangeSet.single(3, 4), 2)


@dataclass
class World:
    """Two clusters. ``patience``: so many records are taken before the connection breaks."""

    clusters: dict[str, MemoryCluster] = field(default_factory=dict)
    compact: set[str] = field(default_factory=set)
    patience: int = 1 << 30
    sent: int = 0

    def __post_init__(self) -> None:
        self.clusters = {name: MemoryCluster() for name in ("dc1", "aggregate")}

    def reader(self, cluster: str) -> Any:
        return self.clusters[cluster]

    def producer(self, cluster: str) -> Any:
        return Sender(self, self.clusters[cluster])

    def compacted(self, cluster: str, topic: str) -> bool:
        return topic in self.compact

    def put(
        self,
        cluster: str,
        sequences: Any,
        topic: str = "t",
        partition: int = 0,
        keys: str = "",
        at: int = 60_000,
    ) -> None:
        """A batch; its keys are the letters of ``keys`` in turn."""
        told = [
            (
                keys[number % len(keys)].encode() if keys else None,
                b"value %d" % sequence,
                (("other", b"x"), ("tm", stamp(sequence))),
                at + sequence,
            )
            for number, sequence in enumerate(sequences)
        ]
        if told:
            self.clusters[cluster].log(topic, partition).append_records(told)

    def found(self, topic: str = "t", cluster: str = "aggregate") -> dict[int, list[int]]:
        """The sequences in each partition, in the order of the log."""
        return {
            partition: [sequence_of(r) for batch in log.batches for r in batch.records()]
            for (name, partition), log in self.clusters[cluster].logs.items()
            if name == topic
        }


@dataclass
class Sender:
    world: World
    cluster: MemoryCluster

    def send(self, *arguments: Any, **named: Any) -> Future[RecordMetadata]:
        if self.world.sent >= self.world.patience:
            raise ConnectError("memory:9092", "send", "it broke")
        self.world.sent += 1
        return self.cluster.send(*arguments, **named)


def item(missing: RangeSet, last: int, **other: Any) -> RepairItem:
    """Of KEY on MIRROR; all of the cell is upstream at the offsets 0 to ``last`` of partition 0."""
    within = (OffsetRange(0, 0, last),)
    made = RepairItem(
        "dc1-to-aggregate", "dc1", "aggregate", KEY, "t", missing, missing.size, within
    )
    return replace(made, **other)


def stamp(sequence: int) -> bytes:
    return encode_stamp(Stamp(INSTANCE, 0, sequence, "web"))


def sequence_of(record: Any) -> int:
    found = decode_stamp(dict(record.headers)["tm"])
    assert found is not None
    return found.sequence


def judged(
    store: Store,
    edge: Edge,
    cell: CellVerdict,
    state: State,
    now: int = 1,
    source: str = COLLECTOR,
) -> None:
    verdict = Verdict(
        edge.name,
        "t",
        KEY.window,
        state,
        claimed=10,
        observed=10 - cell.missing_count,
        missing=cell.missing_count,
        duplicates=cell.duplicates,
        cells=(cell,) if state is not State.COMPLETE else (),
    )
    with store.write() as connection:
        record_verdicts(connection, [verdict], source, now)


def held_in(store: Store, cluster: str, sequences: RangeSet, topic: str = "t") -> None:
    key = KEY._replace(topic=topic)
    seen = Observation(key, sequences.size, 10, sequences, first_offset=200, last_offset=220)
    with store.write() as connection:
        counts.save_observations(connection, cluster, topic, 1, [seen], 1)
