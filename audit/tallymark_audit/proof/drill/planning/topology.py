"""The drill's own deployment: two datacenters mirrored into an aggregate, short windows, and a
proxy before every hop that gets faults.

A cluster has one broker, or three that keep three replicas of everything. A proxy has a gate for
each broker of its cluster. A mirror that goes through a proxy reads settings of its own, in which
the aggregate's brokers are at the proxy's gates. All others (collectors, repair) connect to the
brokers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallymark.deployment import Cluster, Deployment, LakeSettings, dump_toml
from tallymark.deployment.audit import AuditedGroup
from tallymark.errors import UserError
from tallymark.private_files import open_locked
from tallymark.processes.free_ports import free_ports
from tallymark.processes.ports import with_brokers, with_free_ports
from tallymark_audit.proof.drill.planning.leftovers import clear

AGGREGATE: Final = "aggregate"
DATACENTERS: Final = ("dc1", "dc2")
TOPIC: Final = "orders"
PARTITIONS: Final = 2
WINDOW_MS: Final = 2_000
SETTLE_MS: Final = 2_000
SILENCE_MS: Final = 8_000
SKEW_MS: Final = 600_000
GROUP: Final = "billing"
CONSUMER_HOP: Final = f"{AGGREGATE}-to-group:{GROUP}"
"""The hop of the one consumer group, which reads the aggregate."""
SETTINGS: Final = "drill.toml"
LOCK: Final = "drill.lock"
FLUSH_MS: Final = 15_000
"""How often the aggregate's broker flushes: what came since is what a power failure may take."""

CHECKPOINT_MS: Final = 5_000
"""How often brokers note up to where their logs are flushed: damage at rest waits for it."""


@dataclass(frozen=True, slots=True)
class SideTopic:
    """A topic to which one fault happens, and that is named like it: written at ``home``, mirrored
    like every other. ``segment_bytes``: 0 for what the broker takes. ``at_home``: its settings
    there."""

    name: str
    home: str
    partitions: int
    segment_bytes: int = 0
    at_home: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """A port of a proxy that stands for one broker: ``node`` is its id, ``target`` where it is."""

    node: int
    target: str
    port: int


@dataclass(frozen=True, slots=True)
class ProxyHop:
    """Somewhere messages pass: ``name`` is the edge's. A proxy for it has a gate for each broker of
    the cluster into which they go."""

    name: str
    gates: tuple[Gate, ...]

    @property
    def bootstrap(self) -> str:
        """Where its clients begin."""
        return ",".join(f"127.0.0.1:{gate.port}" for gate in self.gates)

    @property
    def mirrored(self) -> bool:
        """Whether a mirror passes it."""
        return not self.name.startswith("producer-") and self.name != CONSUMER_HOP


@dataclass(frozen=True, slots=True)
class Topology:
    """``settings``: the file that all processes read; ``own``: the file of a process that goes
    through a proxy, by the process's name."""

    deployment: Deployment
    settings: Path
    own: dict[str, Path]
    hops: dict[str, ProxyHop]
    lock: int
    """The descriptor of a locked file: while it is open, no other drill uses the folder."""

    def release(self) -> None:
        """Release the folder for other drills."""
        os.close(self.lock)

    @property
    def folder(self) -> Path:
        return self.deployment.data_dir

    @property
    def sealed(self) -> Path:
        return self.folder / "sealed"

    @property
    def mirrors(self) -> list[tuple[str, str]]:
        return [(mirror.source, mirror.target) for mirror in self.deployment.mirrors]

    def nodes(self, cluster: str) -> list[int]:
        """The ids of the cluster's brokers."""
        return [broker.id for broker in self.deployment.cluster(cluster).brokers]

    def broker_folder(self, cluster: str, node: int = 0) -> Path:
        """Where a broker of the cluster keeps its logs."""
        return self.folder.absolute() / cluster / f"broker-{node}"

    def bootstrap(self, cluster: str) -> str:
        """Where the cluster's producers go: to the proxy, where there is one."""
        hop = self.hops.get(f"producer-to-{cluster}")
        return hop.bootstrap if hop else self.straight(cluster)

    def straight(self, cluster: str) -> str:
        """The cluster's brokers themselves."""
        return self.deployment.cluster(cluster).bootstrap_servers


def broker_of(cluster: str, node: int = 0) -> str:
    """What the process of a broker is called."""
    return f"broker-{cluster}-{node}"


def all_hops() -> list[str]:
    """Every hop on which messages are produced, so that it can get faults."""
    producers = [f"producer-to-{name}" for name in DATACENTERS]
    return producers + [f"{name}-to-{AGGREGATE}" for name in DATACENTERS]


def build(
    folder: Path,
    through_proxy: Iterable[str],
    store: str = "",
    loaded: Iterable[SideTopic] = (),
    brokers: int = 1,
) -> Topology:
    """Prepare an empty folder with all settings files. ``loaded``: topics that have a lake.
    ``brokers``: of each cluster. UserError: it cannot be written to."""
    names = sorted(set(through_proxy))
    # A declared group owes every window; a discovered one only those since its first report, and
    # what a slow clock has stamped lies before.
    groups = (
        (AuditedGroup(cluster=AGGREGATE, group=GROUP, topics=TOPIC),)
        if CONSUMER_HOP in names
        else ()
    )
    deployment = _deployment(folder, store, groups, brokers)
    if topics := "|".join(topic.name for topic in loaded):
        deployment = deployment.model_copy(update={"lake": LakeSettings(topics=topics)})
    hops = _hops(deployment, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = _take(folder)
        clear(folder, LOCK)
        settings = folder / SETTINGS
        settings.write_text(dump_toml(deployment), encoding="utf-8")
        own: dict[str, Path] = {}
        for hop in hops.values():
            if hop.mirrored:
                path = own[f"mirror-{hop.name}"] = folder / f"mirror-{hop.name}.toml"
                path.write_text(dump_toml(_through(deployment, hop)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}", "make room there") from error
    return Topology(deployment, settings, own, hops, lock)


def _take(folder: Path) -> int:
    """Take the folder for this drill. UserError: it holds something else, or is in use."""
    strangers = any(folder.iterdir()) and not (folder / LOCK).exists()
    if strangers:
        raise UserError(f"{folder} holds what no drill has put there", "give --keep another folder")
    try:
        return open_locked(folder / LOCK)
    except BlockingIOError:
        raise UserError(f"a drill is running in {folder}", "give --keep another folder") from None


def _deployment(
    folder: Path, store: str, groups: tuple[AuditedGroup, ...], brokers: int
) -> Deployment:
    alone = with_free_ports(Deployment(name="drill", data_dir=folder.absolute()))
    free = with_brokers(alone, brokers) if brokers > 1 else alone
    return free.model_copy(
        update={
            "registry": free.registry.model_copy(update={"embedded": False}),
            "dashboards": free.dashboards.model_copy(update={"embedded": False}),
            "clusters": tuple(_cluster(one) for one in free.clusters),
            "audit": free.audit.model_copy(
                update={
                    "window_ms": WINDOW_MS,
                    "settle_min_ms": SETTLE_MS,
                    "settle_max_ms": SETTLE_MS,
                    "report_interval_ms": 500,
                    "silence_ms": SILENCE_MS,
                    "skew_ms": SKEW_MS,
                    "content_check": True,
                    "consumers": groups,
                    "store": store,
                }
            ),
        }
    )


def _cluster(cluster: Cluster) -> Cluster:
    # What is deleted stays so until it is made again with the partitions that it is to have.
    settings: dict[str, Any] = {
        "auto.create.topics.enable": False,
        "log.flush.offset.checkpoint.interval.ms": CHECKPOINT_MS,
    }
    if cluster.name == AGGREGATE:
        settings["log.flush.interval.ms"] = FLUSH_MS
    return cluster.model_copy(update={"broker_settings": cluster.broker_settings | settings})


def _hops(deployment: Deployment, names: list[str]) -> dict[str, ProxyHop]:
    into = {name: deployment.cluster(_read_or_written(name)).brokers for name in names}
    ports = iter(free_ports(sum(map(len, into.values()))))
    return {
        name: ProxyHop(name, tuple(Gate(one.id, one.address, next(ports)) for one in brokers))
        for name, brokers in into.items()
    }


def _read_or_written(hop: str) -> str:
    """The cluster before which the hop's proxy stands."""
    source, _, target = hop.partition("-to-")
    return source if hop == CONSUMER_HOP else target


def _through(deployment: Deployment, hop: ProxyHop) -> Deployment:
    """The settings with the brokers of the hop's target at the proxy's gates."""
    target = deployment.cluster(_read_or_written(hop.name))
    ports = {gate.node: gate.port for gate in hop.gates}
    brokers = tuple(one.model_copy(update={"port": ports[one.id]}) for one in target.brokers)
    behind = target.model_copy(update={"brokers": brokers})
    clusters = tuple(behind if one.name == target.name else one for one in deployment.clusters)
    return deployment.model_copy(update={"clusters": clusters})
