"""``tallymark dashboards``."""

from __future__ import annotations

import click

from tallymark.deployment import load
from tallymark.processes.process import run_process
from tallymark_dashboards.server import DashboardServer


@click.command("dashboards")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
def command(settings: str | None) -> None:
    """Serve the audit dashboards until SIGTERM or Ctrl-C."""
    deployment = load(settings)
    servers: list[DashboardServer] = []

    def start() -> DashboardServer:
        servers.append(DashboardServer(deployment))
        return servers[0]

    run_process("dashboards", start, check=lambda: servers[0].check())
