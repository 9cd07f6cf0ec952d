"""A cluster of several broker processes with replicated topics, to be killed, paused and asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from asked_cluster import AskedCluster, wait_for
from broker_process import BrokerProcess

from tallymark import Admin
from tallymark.coordination import ZooKeeper
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.protocol.messages import MetadataRequest
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer

SESSION_MS: Final = 3000


class ReplicatedCluster(AskedCluster):
    """Brokers 1 to ``count`` of the cluster ``/c`` in ``zookeeper``, at this feature level of
    replication. As a context manager it leaves nothing running. ``settings`` are those of each,
    ``code`` is the project whose code runs (None: this one)."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeperServer,
        count: int = 3,
        *,
        level: int = 1,
        code: Path | None = None,
        **settings: object,
    ) -> None:
        self._level = level
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
            broker.code = code
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
        self.wait_for_all()
        texts = {name.replace("_", "."): str(value) for name, value in configs.items()}
        with Admin(bootstrap_servers=self.addresses) as admin:
            admin.create_topic(topic, 1, texts, replication_factor=replicas)
        wait_for(lambda: len(self.partition(topic).isr_nodes) == replicas, f"{topic} in sync")

    def living(self) -> list[str]:
        """See :class:`asked_cluster.AskedCluster`."""
        return [one.address for one in self.brokers.values() if one.is_alive]

    def wait_for_all(self) -> None:
        """Until each broker knows all: a topic is placed by the one that is asked for it, and has
        no more replicas than that one knows brokers."""

        def know_all() -> bool:
            known: list[int] = []
            for broker in self.brokers.values():
                with contextlib.suppress(OSError), WireClient(broker.address, timeout=2) as wire:
                    known.append(len(wire.ask(MetadataRequest(topics=[]), 12).brokers))
            return known == [len(self.brokers)] * len(self.brokers)

        wait_for(know_all, "all brokers to know each other")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for number, broker in enumerate(self.brokers.values()):
                stack.enter_context(broker)
                if self._level and not number:
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
            write_features(
                zookeeper, Finalized({REPLICATION: self._level}, found.epoch, found.others)
            )


@contextlib.contextmanager
def paused(broker: BrokerProcess) -> Iterator[None]:
    """The broker does nothing meanwhile."""
    broker.pause()
    try:
        yield
    finally:
        broker.resume()
