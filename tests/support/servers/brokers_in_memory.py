"""A cluster of brokers in threads of the test, their disks and ZooKeeper in memory."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from eventually import eventually

from tallymark import Admin
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.state import BrokerState
from tallymark.coordination import TopicAssignment, TopicRegistry, ZooKeeper, paths
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.errors import KafkaError
from tallymark.log import Log, OsFiles
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import PartitionState
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper

T = TypeVar("T")


class BrokersInMemory:
    """Brokers 1 to ``count`` at feature level 1 of replication, as a context manager. ``on_disk``:
    their data are below ``folder``."""

    def __init__(
        self, folder: Path, count: int = 3, *, on_disk: bool = False, **settings: Any
    ) -> None:
        self._folder = folder
        self._settings = settings
        self.server = MemoryZooKeeper()
        self.zookeeper = ZooKeeper("memory:1", "/c", client=self.server.client)
        self.disks = {node_id: MemoryFiles() for node_id in range(1, 10)}
        self._on_disk = on_disk
        self.brokers = {node_id: self.broker(node_id) for node_id in range(1, count + 1)}

    def broker(self, node_id: int) -> BrokerThread:
        """A broker on its disk, not started."""
        fixed: dict[str, Any] = {
            "node_id": node_id,
            "enable_zookeeper": True,
            "zookeeper_connect": "memory:1/c",
            "log_cleaner_enable": False,
        }
        return BrokerThread(
            self._folder / f"broker-{node_id}",
            files=OsFiles() if self._on_disk else self.disks[node_id],
            zookeeper=self.server.client,
            **(fixed | self._settings),
        )

    def create(self, name: str, replicas: int = 3, **configs: object) -> None:
        """A topic of one partition; returns when all its replicas are in sync."""
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        running = [one for one, broker in self.brokers.items() if broker.broker]
        for one in running:  # one that has not heard of the others yet would refuse
            eventually(partial(self._knows, one, len(running)))
        with Admin(bootstrap_servers=self.any_address) as admin:
            assert admin.create_topic(name, 1, texts, replication_factor=replicas)
        eventually(lambda: len(self.state(name).isr) == replicas)

    def _knows(self, node_id: int, count: int) -> bool:
        return len(self.running(node_id).image.brokers) >= count

    @property
    def any_address(self) -> str:
        """Of a broker that runs."""
        return next(one.bootstrap_servers for one in self.brokers.values() if one.broker)

    def topic(self, name: str) -> TopicAssignment:
        """The node of the topic."""
        found = TopicRegistry(self.zookeeper).get(name)
        assert found is not None
        return found

    def state(self, name: str) -> PartitionState:
        """The state node of the topic's partition 0."""
        return TopicRegistry(self.zookeeper).states([self.topic(name)])[name, 0]

    def end_session(self, node_id: int) -> None:
        """The broker's session in ZooKeeper is over, as after a long silence."""
        node = self.zookeeper.find(paths.broker(node_id))
        assert node is not None
        self.server.end_session(node.session)

    def running(self, node_id: int) -> BrokerState:
        """What the broker knows."""
        broker = self.brokers[node_id].broker
        assert broker is not None
        assert broker.state is not None
        return broker.state

    def partition(self, node_id: int, name: str) -> Partition | None:
        """Partition 0 of the topic on the broker, led or not."""
        return self.running(node_id).partitions.held(name, 0)

    def leader(self, name: str) -> int:
        """The broker that leads the topic's partition 0, when it does."""

        def leads() -> int:
            leader = self.state(name).leader
            if leader not in self.brokers or self.brokers[leader].broker is None:
                return 0
            found = self.running(leader).partitions.get(name, 0)
            return leader if found is not None and found.lead is not None else 0

        return eventually(leads)

    def produce(
        self, name: str, value: bytes, acks: int = -1, leader: int = 0, timeout_ms: int = 5000
    ) -> ProduceResponsePartition:
        """Write one message at the leader, or at the broker that is named."""
        part = ProduceRequestPartition(index=0, records=encode_batch([(None, value, (), 1)]))
        asked = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[ProduceRequestTopic(name=name, partition_data=[part])],
        )
        at = self.brokers[leader or self.leader(name)].bootstrap_servers
        with WireClient(at, timeout=30) as wire:
            return wire.ask(asked, 10).responses[0].partition_responses[0]

    def content(self, node_id: int, name: str) -> tuple[list[bytes | None], int]:
        """The values in the broker's log, and its high watermark; nothing and -1 where there is no
        log, or it is just being cut."""
        partition = self.partition(node_id, name)
        if partition is None:
            return [], -1
        try:
            return values_of(partition.log), partition.high_watermark
        except KafkaError as error:
            if error.name != "REPLICA_NOT_AVAILABLE":
                raise
            return [], -1

    def wait_until_equal(self, name: str, *nodes: int) -> list[bytes | None]:
        """Until the logs and high watermarks of these brokers (default: all) are the same."""

        found: list[tuple[list[bytes | None], int]] = []

        def are_equal() -> bool:
            found[:] = [self.content(one, name) for one in nodes or self.brokers]
            return all(each == found[0] and each[1] == len(each[0]) for each in found)

        eventually(are_equal)
        return found[0][0]

    def __enter__(self) -> Self:
        self.zookeeper.start(create_root=True)
        found = read_features(self.zookeeper)
        write_features(self.zookeeper, Finalized({REPLICATION: 1}, found.epoch, found.others))
        with contextlib.ExitStack() as stack:
            for broker in self.brokers.values():
                broker.start()
                stack.callback(broker.stop)
            stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers.values():
            broker.stop()
        self.zookeeper.close()


def values_of(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = log.start_offset
    while at < log.end_offset:
        batches = split_batches(log.read(at, 1 << 20).read())
        if not batches:  # it was cut meanwhile
            break
        found += [record.value for batch in batches for record in batch.records()]
        at = batches[-1].header.next_offset
    return found
