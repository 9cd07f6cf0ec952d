"""The ports of a deployment: which there are, whether one is taken, and free ones on request."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

from tallymark.deployment import Deployment
from tallymark.processes.supervisor.plan import ProcessSpec, plan


def listening(deployment: Deployment) -> list[ProcessSpec]:
    """The processes of ``tallymark up`` that listen on a port."""
    return [spec for spec in plan(deployment) if spec.port]


def is_taken(host: str, port: int) -> bool:
    """Whether somebody listens on the port already."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port that is only in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def with_free_ports(deployment: Deployment) -> Deployment:
    """The same deployment on ports that are free now, all different from each other. Clusters that
    run elsewhere stay where they are."""
    count = 3 + sum(len(cluster.brokers) for cluster in deployment.clusters)
    with ExitStack() as stack:
        ports = iter(list(_free_ports(stack, count)))
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


def _free_ports(stack: ExitStack, count: int) -> Iterator[int]:
    """Ports the system hands out, held until the stack is left so that none comes twice."""
    for _ in range(count):
        probe = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]
