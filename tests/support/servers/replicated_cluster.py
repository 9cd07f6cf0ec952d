"""A cluster of several broker processes with replicated topics, to be killed, paused and asked."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from broker_process import BrokerProcess

from tallymark import Admin
from tallymark.coordination import ZooKeeper
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer

SESSION_MS: Final = 3000
T = TypeVar("T")


class ReplicatedCluster:
    """Brokers 1 to ``count`` of the cluster ``/c`` in ``zookeeper``, at feature level 1 of
    replication. As a context manager it leaves nothing running. ``settings`` are those of each."""

    def __init__(
        self, folder: Path, zookeeper: ZooKeeperServer, count: int = 3, **settings: object
    ) -> None:
        self.connect = f"{zookeeper.connect}/c"
        fixed: dict[str, object] = {
            "zookeeper_session_timeout_ms": SESSION_MS,
            "group_initial_rebalance_delay_ms": 100,
        }
        self.brokers = {
            node_id: BrokerProcess(folder / f"broker-{node_id}", **(fixed | settings))
            for node_id in range(1, count + 1)
        }
        for node_id, broker in self.brokers.items():
            zookeeper_at = f"--set=zookeeper.connect={self.connect}"
            broker.cluster = ("--id", str(node_id), zookeeper_at)
            broker.data.parent.mkdir(parents=True, exist_ok=True)
        self._stack = contextlib.ExitStack()

    @property
    def addresses(self) -> str:
        """``host:port`` of all brokers, with commas between."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def data(self) -> list[Path]:
        """The brokers' data folders."""
        return [broker.data for broker in self.brokers.values()]

    def create(self, topic: str, replicas: int = 3, **configs: object) -> None:
        """Create a topic of one partition and wait until all its replicas are in sync."""
        texts = {name.replace("_", "."): str(value) for name, value in configs.items()}
        with Admin(bootstrap_servers=self.addresses) as admin:
            admin.create_topic(topic, 1, texts, replication_factor=replicas)
        wait_for(lambda: len(self.partition(topic).isr_nodes) == replicas, f"{topic} in sync")

    def partition(self, topic: str) -> MetadataResponsePartition:
        """Partition 0 of the topic as the first broker that answers has it."""
        for broker in self.brokers.values():
            if not broker.is_alive:
                continue
            with contextlib.suppress(OSError), WireClient(broker.address, timeout=2) as wire:
                request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
                partitions = wire.ask(request, 12).topics[0].partitions
                if partitions:
                    return partitions[0]
        return MetadataResponsePartition(leader_id=-1)

    def leader(self, topic: str) -> int:
        """The broker that leads the topic's partition, when there is one."""
        return wait_for(
            lambda: leader if (leader := self.partition(topic).leader_id) >= 0 else None,
            f"a leader of {topic}",
        )

    def followers(self, topic: str) -> list[int]:
        """The other replicas."""
        leader = self.leader(topic)
        return [node for node in self.partition(topic).replica_nodes if node != leader]

    def wait_until_whole(self, topic: str) -> None:
        """Until the ISR has all replicas."""

        def is_whole() -> bool:
            found = self.partition(topic)
            return bool(found.replica_nodes) and set(found.isr_nodes) == set(found.replica_nodes)

        wait_for(is_whole, f"the whole ISR of {topic}")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for number, broker in enumerate(self.brokers.values()):
                stack.enter_context(broker)
                if not number:
                    self._raise_level()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _raise_level(self) -> None:
        with ZooKeeper(self.connect) as zookeeper:
            found = read_features(zookeeper)
            write_features(zookeeper, Finalized({REPLICATION: 1}, found.epoch, found.others))


def wait_for(look: Callable[[], T | None], what: str, seconds: float = 60) -> T:
    """What ``look`` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    """The broker does nothing meanwhile."""
    broker.pause()
    try:
        yield
    finally:
        broker.resume()
