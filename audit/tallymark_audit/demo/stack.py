"""The demo's own deployment: the embedded stack with short windows, in a folder of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from tallymark.cli.ports import is_taken, with_free_ports
from tallymark.cli.supervisor.control import ask
from tallymark.cli.supervisor.run import control_file
from tallymark.deployment import Cluster, Deployment, dump_toml
from tallymark.errors import UserError

WINDOW_MS = 5_000
SETTLE_MS = 5_000
FLUSH_MS = 15_000
"""How often the aggregate's broker flushes: what came since is what a power failure may take."""
AGGREGATE = "aggregate"
DATACENTERS = ("dc1", "dc2")


def demo_deployment(data_dir: Path) -> Deployment:
    """The default topology on free ports, the dashboards on their usual one if it is free."""
    usual = Deployment()
    free = with_free_ports(usual)
    dashboards = free.dashboards
    if not is_taken(usual.dashboards.host, usual.dashboards.port):
        dashboards = usual.dashboards
    return free.model_copy(
        update={
            "name": "demo",
            "data_dir": data_dir,
            "dashboards": dashboards,
            "clusters": tuple(_with_flush(cluster) for cluster in free.clusters),
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
    """An empty data folder with the settings in it. UserError when a demo runs there already."""
    folder = deployment.data_dir
    try:
        ask(control_file(deployment), {"do": "status"})
    except UserError:
        pass
    else:
        raise UserError(f"a demo is running on {folder}", "stop it with Ctrl-C first")
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "demo.toml"
        settings.write_text(dump_toml(deployment), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}", "make room there") from error
    return settings


def broker_folder(deployment: Deployment) -> Path:
    """Where the aggregate's broker keeps its logs."""
    return deployment.data_dir.absolute() / AGGREGATE / "broker-0"


def _with_flush(cluster: Cluster) -> Cluster:
    if cluster.name != AGGREGATE:
        return cluster
    return cluster.model_copy(update={"broker_settings": {"log.flush.interval.ms": FLUSH_MS}})
