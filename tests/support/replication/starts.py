"""Starts of brokers: their disks, and a registration that gives up what they may not claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from partition_nodes import make

from tallymark.coordination import BrokerInfo, BrokerRegistry, ZooKeeper
from tallymark.coordination.cluster.broker_epochs import epochs_of
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.cluster.feature_levels import write_features
from tallymark.coordination.replicas.starting import Starting
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized, Levels
from tallymark.replication.model import Tail
from tallymark.replication.registration import LocalLog

ABLE = {REPLICATION: Levels(0, 1)}
TAIL = Tail(0, 5)


@dataclass
class Disk:
    """A broker's logs. ``events`` is what it was asked to do."""

    intact: bool = True
    boots: int = 0
    asked: list[list[TopicPartition]] = field(default_factory=list[list[TopicPartition]])

    def logs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LocalLog]:
        self.asked.append(list(partitions))
        return {each: LocalLog(TAIL, self.intact) for each in self.asked[-1]}

    def remember_boot(self) -> None:
        self.boots += 1


def info(broker: int, port: int = 9092, run: str = "run") -> BrokerInfo:
    return BrokerInfo(broker, "127.0.0.1", port, run, features=ABLE)


def register(
    zookeeper: ZooKeeper,
    broker: BrokerInfo,
    disk: Disk,
    failed: list[TallymarkError] | None = None,
) -> BrokerNode:
    starting = Starting(zookeeper, broker.id, disk, lambda: 0)
    failures = failed if failed is not None else []
    return BrokerRegistry(zookeeper).register(broker, failures.append, starting.give_up)


def replicated(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    write_features(zookeeper, Finalized({REPLICATION: 1}))


def epoch_of(zookeeper: ZooKeeper, broker: int) -> int:
    return epochs_of(zookeeper, [broker])[broker]
