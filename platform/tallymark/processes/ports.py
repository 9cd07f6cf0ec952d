"""The ports of a deployment: which there are, and the same deployment on free ones."""

from __future__ import annotations

from tallymark.deployment import Deployment
from tallymark.processes.free_ports import free_ports
from tallymark.processes.supervisor.plan import ProcessSpec, plan


def listening(deployment: Deployment) -> list[ProcessSpec]:
    """The processes of ``tallymark up`` that listen on a port."""
    return [spec for spec in plan(deployment) if spec.port]


def with_free_ports(deployment: Deployment) -> Deployment:
    """The same deployment on ports that are free now, all different from each other. Clusters that
    run elsewhere stay where they are."""
    count = 3 + sum(len(cluster.brokers) for cluster in deployment.clusters)
    ports = iter(free_ports(count))
    return deployment.model_copy(
        update={
            "zookeeper": deployment.zookeeper.model_copy(update={"port": next(ports)}),
            "registry": deployment.registry.model_copy(update={"port": next(ports)}),
            "dashboards": deployment.dashboards.model_copy(update={"port": next(ports)}),
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
