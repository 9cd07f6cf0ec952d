"""``tallymark dashboards``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import click

from tallymark.deployment import find_settings, load
from tallymark.processes.process import run_process

if TYPE_CHECKING:
    from tallymark_dashboards.server import DashboardServer


@click.command("dashboards")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
def command(settings: str | None) -> None:
    """Serve the audit dashboards until SIGTERM or Ctrl-C."""
    # Nothing of what is loaded now is garbage: to look through it takes a tenth of the start.
    gc.disable()
    from tallymark_dashboards.server import DashboardServer

    deployment, path = load(settings), find_settings(settings)
    servers: list[DashboardServer] = []

    def start() -> DashboardServer:
        servers.append(DashboardServer(deployment, str(path) if path else None))
        # What has been loaded stays: to look through it again and again takes 0.1 s each time, in
        # the middle of a page.
        gc.collect()
        gc.freeze()
        gc.enable()
        return servers[0]

    run_process("dashboards", start, check=lambda: servers[0].check())
