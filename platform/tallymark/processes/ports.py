"""The ports of a deployment: which there are, the same deployment on free ones, and with more
brokers on free ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from tallymark.deployment import (
    Cluster,
    DashboardSettings,
    Deployment,
    RegistrySettings,
    ZooKeeperSettings,
)
from tallymark.processes.free_ports import free_ports
from tallymark.processes.supervisor.plan import ProcessSpec, plan

MOST_REPLICAS: Final = 3
"""Of topics of :func:`with_brokers`."""
_P = TypeVar("_P", ZooKeeperSettings, RegistrySettings, DashboardSettings)


def listening(deployment: Deployment) -> list[ProcessSpec]:
    """The processes of ``tallymark up`` that listen on a port."""
    return [spec for spec in plan(deployment) if spec.port]


def with_free_ports(deployment: Deployment) -> Deployment:
    """The same deployment on ports that are free now, all different from each other. What runs
    elsewhere (not ``embedded``) stays where it is."""
    count = 3 + sum(len(cluster.brokers) for cluster in deployment.clusters)
    ports = iter(free_ports(count))
    return deployment.model_copy(
        update={
            "zookeeper": _moved(deployment.zookeeper, next(ports)),
            "registry": _moved(deployment.registry, next(ports)),
            "dashboards": _moved(deployment.dashboards, next(ports)),
            "clusters": tuple(
                cluster.model_copy(
                    update={
                        "brokers": tuple(
                            broker.model_copy(update={"port": next(ports)})
                            for broker in cluster.brokers
                        )
                    }
                )
                if cluster.embedded
                else cluster
                for cluster in deployment.clusters
            ),
        }
    )


def _moved(part: _P, port: int) -> _P:
    return part.model_copy(update={"port": port}) if part.embedded else part


def with_brokers(deployment: Deployment, count: int) -> Deployment:
    """The same deployment with at least ``count`` brokers in each cluster of ours that it starts:
    further ones on free ports, and topics with up to three replicas where the cluster's
    ``broker_settings`` say nothing else. One broker may be away then."""
    ours = [one for one in deployment.clusters if one.embedded and one.kind == "tallymark"]
    ports = iter(free_ports(count * len(ours)))
    grown = {one.name: _grown(one, count, ports) for one in ours}
    clusters = tuple(grown.get(one.name, one) for one in deployment.clusters)
    return deployment.model_copy(update={"clusters": clusters})


def _grown(cluster: Cluster, count: int, ports: Iterator[int]) -> Cluster:
    first = cluster.brokers[0]
    after = max(broker.id for broker in cluster.brokers) + 1
    more = tuple(
        first.model_copy(update={"id": after + number, "port": next(ports)})
        for number in range(count - len(cluster.brokers))
    )
    replicas = min(MOST_REPLICAS, len(cluster.brokers) + len(more))
    settings: dict[str, str | int | float | bool] = {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "min.insync.replicas": max(1, replicas - 1),
    }
    return cluster.model_copy(
        update={
            "brokers": (*cluster.brokers, *more),
            "broker_settings": settings | cluster.broker_settings,
        }
    )
