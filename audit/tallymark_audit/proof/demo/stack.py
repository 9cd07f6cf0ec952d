"""The demo's own deployment: the embedded stack with short windows, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tallymark.deployment import Cluster, Deployment, dump_toml
from tallymark.errors import UserError
from tallymark.processes.free_ports import is_taken
from tallymark.processes.ports import with_free_ports
from tallymark.processes.supervisor.control import NotRunningError, ask
from tallymark.processes.supervisor.run import control_file
from tallymark.untrusted import command

Kind: TypeAlias = Literal["tallymark", "apache-kafka"]

SETTINGS: Final = "demo.toml"
"""The settings file in the folder of a demo."""
WINDOW_MS = 5_000
SETTLE_MS = 5_000
FLUSH_MS = 15_000
"""How often the aggregate's broker flushes: what came since is what a power failure may take."""
_FLUSHES: Final[Mapping[Kind, Mapping[str, int]]] = {
    "tallymark": {"log.flush.interval.ms": FLUSH_MS},
    # Kafka flushes never, looks rarely whether it should, and seldom notes what it has flushed.
    "apache-kafka": {
        "log.flush.interval.ms": FLUSH_MS,
        "log.flush.scheduler.interval.ms": 1000,
        "log.flush.offset.checkpoint.interval.ms": 500,
        "log.initial.task.delay.ms": 500,
    },
}
AGGREGATE = "aggregate"
DATACENTERS = ("dc1", "dc2")


def demo_deployment(data_dir: Path, kind: Kind = "tallymark") -> Deployment:
    """The default topology on free ports, the dashboards on their usual one if it is free, with
    brokers of that kind."""
    usual = Deployment()
    free = with_free_ports(usual)
    dashboards = free.dashboards
    if not is_taken(usual.dashboards.host, usual.dashboards.port):
        dashboards = usual.dashboards
    return free.model_copy(
        update={
            "name": "demo",
            "data_dir": data_dir.absolute(),
            "dashboards": dashboards,
            "clusters": tuple(_cluster(one, kind) for one in free.clusters),
            "audit": free.audit.model_copy(
                update={
                    "window_ms": WINDOW_MS,
                    "settle_min_ms": SETTLE_MS,
                    "settle_max_ms": SETTLE_MS,
                    "report_interval_ms": 1_000,
                    "silence_ms": 15_000,
                }
            ),
        }
    )


def prepare_folder(deployment: Deployment) -> Path:
    """An empty data folder with the settings in it. UserError when a demo runs there already, or
    something does that gives no answer."""
    folder = deployment.data_dir
    try:
        ask(control_file(deployment), {"do": "status"})
    except NotRunningError:
        pass
    else:
        end = command("tallymark down", settings=str(folder / SETTINGS))
        raise UserError(f"a demo is running on {folder}", f"stop it with Ctrl-C, or with: {end}")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / SETTINGS
        settings.write_text(dump_toml(deployment), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}", "make room there") from error
    return settings


def broker_folder(deployment: Deployment) -> Path:
    """Where the aggregate's broker keeps its logs."""
    folder = deployment.data_dir.absolute() / AGGREGATE / "broker-0"
    return folder / "data" if deployment.cluster(AGGREGATE).kind == "apache-kafka" else folder


def _cluster(cluster: Cluster, kind: Kind) -> Cluster:
    settings = dict(_FLUSHES[kind]) if cluster.name == AGGREGATE else {}
    return cluster.model_copy(update={"kind": kind, "broker_settings": settings})
