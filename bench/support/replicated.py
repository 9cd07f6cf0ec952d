"""Three of our brokers on this host, a cluster of one ZooKeeper in which topics have replicas."""

from __future__ import annotations

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


class Cluster:
    """Brokers 1 to 3. What a client needs of a broker (:class:`support.measure.Running`) is that
    of all of them."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer) -> None:
        self.data = folder
        self.brokers = {
            number: OwnBroker(
                folder / f"broker-{number}",
                {
                    "broker.id": str(number),
                    "zookeeper.connect": zookeeper.connect,
                    "zookeeper.session.timeout.ms": str(SESSION_MS),
                },
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
def cluster(folder: Path) -> Iterator[Cluster]:
    """A running one, at level 1 of replication."""
    with ExitStack() as stack:
        (port,) = free_ports(1)
        zookeeper = stack.enter_context(ZooKeeperServer(folder / "zookeeper", port=port))
        found = Cluster(folder, zookeeper)
        for broker in found.brokers.values():
            stack.enter_context(broker)
        with Admin(bootstrap_servers=found.bootstrap_servers) as admin:
            admin.update_features({"replication.version": 1})
        yield found
