"""Three of our brokers on this host, a cluster of one ZooKeeper in which topics have replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from support.measure import cpu_seconds
from support.own_broker import OwnBroker

from tallymark.client import Admin
from tallymark.processes.free_ports import free_ports
from tallymark.processes.zookeeper_server import ZooKeeperServer

SESSION_MS: Final = 6000
_START_SECONDS: Final = 120.0


class Cluster:
    """Brokers 1 to 3. What a client needs of a broker (:class:`support.measure.Running`) is that
    of all of them. ``before`` and ``tree``: as of :class:`.own_broker.OwnBroker`."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeperServer,
        before: str = "",
        session_ms: int = SESSION_MS,
        tree: Path | None = None,
    ) -> None:
        self.data = folder
        self.zookeeper = zookeeper.connect
        self.brokers = {
            number: OwnBroker(
                folder / f"broker-{number}",
                {
                    "broker.id": str(number),
                    "zookeeper.connect": zookeeper.connect,
                    "zookeeper.session.timeout.ms": str(session_ms),
                },
                before=before,
                tree=tree,
            )
            for number in (1, 2, 3)
        }
        self.pid = 0

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all."""
        return ",".join(broker.address for broker in self.brokers.values())

    def cpu_seconds(self) -> float:
        """Of all brokers so far."""
        return sum(cpu_seconds(broker.pid) for broker in self.brokers.values())

    def create(self, topic: str, replicas: int, least: int) -> None:
        """A topic of one partition."""
        configs = {"min.insync.replicas": str(least)}
        with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            admin.create_topic(topic, 1, configs, replication_factor=replicas)


@contextmanager
def cluster(
    folder: Path, before: str = "", session_ms: int = SESSION_MS, tree: Path | None = None
) -> Iterator[Cluster]:
    """A running one in which each broker has heard of the others, at level 1 of replication."""
    with ExitStack() as stack:
        (port,) = free_ports(1)
        zookeeper = stack.enter_context(ZooKeeperServer(folder / "zookeeper", port=port))
        found = Cluster(folder, zookeeper, before, session_ms, tree)
        for broker in found.brokers.values():
            stack.enter_context(broker)
        _wait_for_all(found)
        with Admin(bootstrap_servers=found.bootstrap_servers) as admin:
            admin.update_features({"replication.version": 1})
        yield found


def _wait_for_all(cluster: Cluster) -> None:
    """Return when each broker has heard of the two others."""
    end = time.monotonic() + _START_SECONDS
    for broker in cluster.brokers.values():
        with Admin(bootstrap_servers=broker.address) as admin:
            while len(admin.describe_cluster().brokers) < len(cluster.brokers):
                if time.monotonic() > end:
                    raise TimeoutError(f"{broker.address} did not hear of all brokers")
                time.sleep(0.1)
