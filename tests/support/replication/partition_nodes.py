"""The nodes of a topic with three replicas, of broker epochs, and what they hold."""

from __future__ import annotations

import uuid

from tallymark.coordination import TopicAssignment, TopicRegistry, TopicWriter, ZooKeeper, paths
from tallymark.replication.model import PartitionState


def make(zookeeper: ZooKeeper, partitions: int = 3, name: str = "t") -> None:
    writer = TopicWriter(zookeeper)
    writer.create(name, uuid.uuid4(), {index: [1, 2, 3] for index in range(partitions)})


def topic_of(zookeeper: ZooKeeper, name: str = "t") -> TopicAssignment:
    found = TopicRegistry(zookeeper).get(name)
    assert found is not None
    return found


def state_of(zookeeper: ZooKeeper, partition: int = 0) -> PartitionState:
    return TopicRegistry(zookeeper).states([topic_of(zookeeper)])["t", partition]


def raise_epoch(zookeeper: ZooKeeper, broker: int) -> int:
    """As another start of the broker does; returns its epoch."""
    path = paths.broker_epoch(broker)
    if zookeeper.find(path) is None:
        zookeeper.create(path, b'{"version":1}', parents=True)
    return zookeeper.write(path, b'{"version":1}')
