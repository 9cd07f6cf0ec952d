"""Which processes a deployment has, and what each waits for before its first start. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tallymark.deployment import Deployment
    from tallymark.deployment.places import Places

    Described: TypeAlias = Deployment | Places


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process: its ``arguments`` follow ``tallymark``; ``after`` are names of processes that
    must be ready first; it listens on ``host`` and ``port`` (0: on nothing); ``address`` is what
    people and other processes use."""

    name: str
    arguments: tuple[str, ...]
    after: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    address: str = ""


def plan(deployment: Described) -> tuple[ProcessSpec, ...]:
    """Every embedded process, in the order in which they are started and shown."""
    zookeeper = (
        ProcessSpec(
            "zookeeper",
            ("zookeeper",),
            host=deployment.zookeeper.host,
            port=deployment.zookeeper.port,
            address=deployment.zookeeper.connect,
        ),
    )
    parts = (
        *(zookeeper if deployment.zookeeper.embedded else ()),
        *_brokers(deployment),
        *_registry(deployment),
        *_mirrors(deployment),
        *_collectors(deployment),
        *_dashboards(deployment),
    )
    names = {part.name for part in parts}
    return tuple(
        replace(part, after=tuple(name for name in part.after if name in names)) for part in parts
    )


_COMMANDS = {"tallymark": "broker", "apache-kafka": "apache-kafka"}


def _brokers(deployment: Described) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            f"broker-{cluster.name}-{broker.id}",
            (_COMMANDS[cluster.kind], "--cluster", cluster.name, "--id", str(broker.id)),
            after=("zookeeper",) if cluster.kind == "tallymark" else (),
            host=broker.host,
            port=broker.port,
            address=broker.address,
        )
        for cluster in deployment.clusters
        if cluster.embedded
        for broker in cluster.brokers
    ]


def _zookeeper_for(deployment: Described, cluster: str) -> tuple[str, ...]:
    return ("zookeeper",) if deployment.cluster(cluster).kind == "apache-kafka" else ()


def _brokers_of(deployment: Described, *clusters: str) -> tuple[str, ...]:
    return tuple(
        f"broker-{name}-{broker.id}"
        for name in clusters
        for broker in deployment.cluster(name).brokers
    )


def _registry(deployment: Described) -> list[ProcessSpec]:
    registry = deployment.registry
    if not registry.embedded:
        return []
    return [
        ProcessSpec(
            "registry",
            ("registry",),
            host=registry.host,
            port=registry.port,
            address=registry.url,
        )
    ]


def _mirrors(deployment: Described) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            f"mirror-{mirror.name}",
            ("mirror", "--from", mirror.source, "--to", mirror.target),
            # Its group is in ZooKeeper, for which brokers of Apache Kafka do not wait.
            after=(
                *_zookeeper_for(deployment, mirror.source),
                *_brokers_of(deployment, mirror.source, mirror.target),
            ),
        )
        for mirror in deployment.mirrors
        if mirror.embedded
    ]


def _collectors(deployment: Described) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            f"collector-{cluster.name}",
            ("audit", "collect", "--cluster", cluster.name),
            after=_brokers_of(deployment, cluster.name),
        )
        for cluster in deployment.clusters
    ]


def _dashboards(deployment: Described) -> list[ProcessSpec]:
    dashboards = deployment.dashboards
    if not dashboards.embedded:
        return []
    return [
        ProcessSpec(
            "dashboards",
            ("dashboards",),
            host=dashboards.host,
            port=dashboards.port,
            address=dashboards.url,
        )
    ]
