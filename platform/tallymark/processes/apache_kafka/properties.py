"""``server.properties`` of an Apache Kafka broker that is a controller as well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tallymark.processes.java import java_property

_COMMON: Final = {
    "process.roles": "broker,controller",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "100",
    # One that was killed comes back when the controller, itself, has forgotten that it was there.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


def properties(
    *,
    node_id: int,
    host: str,
    port: int,
    advertised_host: str,
    voters: Mapping[int, int],
    log_dir: Path,
    given: Mapping[str, str],
    secured: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, str]:
    """Its settings by name; ``given`` win. ``voters`` are the nodes of its cluster, itself among
    them: node id -> the port of loopback on which its controller listens. ``secured`` are the ports
    of listeners beside the plain one, named by their security protocol."""
    ports = {"PLAINTEXT": port, **secured}
    protocols = {"CONTROLLER": "PLAINTEXT", **{name: name for name in ports}}
    listeners = [f"{name}://{host}:{number}" for name, number in ports.items()]
    advertised = [f"{name}://{advertised_host}:{number}" for name, number in ports.items()]
    return {
        **_COMMON,
        **_internal_topics(len(voters)),
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{node}@127.0.0.1:{number}" for node, number in voters.items()
        ),
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{voters[node_id]}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(log_dir),
        **given,
    }


def _internal_topics(brokers: int) -> dict[str, str]:
    """Their replicas: three where the cluster has as many brokers, and two that must have them."""
    replicas = min(3, brokers)
    least = str(max(1, replicas - 1))
    return {
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": least,
    }


def text(settings: Mapping[str, str]) -> str:
    """As ``java.util.Properties`` reads it back."""
    return "".join(f"{name}={java_property(value)}\n" for name, value in settings.items())
