"""Three brokers that are one cluster, ours or Apache Kafka's, as they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from support.measure import Running, cpu_seconds

from tallymark.client import Admin, NewTopic

REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2


class Broker(Running, Protocol):
    """One of them."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Cluster(Protocol):
    """Running brokers by their ids, 1 to 3."""

    @property
    def brokers(self) -> Mapping[int, Broker]: ...
    @property
    def bootstrap_servers(self) -> str: ...


def cpu_by_broker(cluster: Cluster) -> dict[int, float]:
    """Processor time of each broker so far, in seconds."""
    return {number: cpu_seconds(broker.pid) for number, broker in cluster.brokers.items()}


def create(cluster: Cluster, topic: str, partitions: int = 1, replicas: int = REPLICAS) -> None:
    """A topic; that of one partition is led by broker 1."""
    least = {"min.insync.replicas": str(min(MIN_IN_SYNC, replicas))}
    if partitions == 1:
        made = NewTopic(topic, configs=least, assignment={0: list(range(1, replicas + 1))})
    else:
        made = NewTopic(topic, partitions, replicas, least)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([made]).check()


def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_topics([topic]).check()


def in_sync(cluster: Cluster, topic: str) -> bool:
    """Whether each partition of a topic has all of its replicas in sync."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.describe_topics([topic]).done.get(topic)  # none: not heard of yet
    return found is not None and not any(each.under_replicated for each in found.partitions)
