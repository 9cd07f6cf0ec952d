"""``tallymark dashboards``."""

from __future__ import annotations

import click

from tallymark.deployment import find_settings, load
from tallymark.processes.gc_pauses import keep_loaded
from tallymark.processes.process import run_process
from tallymark_dashboards.server import DashboardServer


@click.command("dashboards")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
def command(settings: str | None) -> None:
    """Serve the audit dashboards until SIGTERM or Ctrl-C."""
    deployment, path = load(settings), find_settings(settings)
    servers: list[DashboardServer] = []

    def start() -> DashboardServer:
        servers.append(DashboardServer(deployment, str(path) if path else None))
        # What has been loaded stays: to look through it again and again takes 0.1 s each time, in
        # the middle of a page.
        keep_loaded()
        return servers[0]

    run_process("dashboards", start, check=lambda: servers[0].check())
