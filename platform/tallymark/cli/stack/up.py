"""``tallymark up``: the whole stack on this machine, from one settings file."""

from __future__ import annotations

from pathlib import Path

import click

from tallymark.deployment import Deployment, load
from tallymark.processes.ports import with_free_ports
from tallymark.processes.process import die_with_parent
from tallymark.shell.run_stack import run_stack


@click.command("up")
@click.option("--settings", type=click.Path(), help="The settings file (default: see docs).")
@click.option("--data", type=click.Path(file_okay=False), help="Where all data goes.")
@click.option("--free-ports", is_flag=True, help="Listen on free ports instead of the settings'.")
def command(settings: str | None, data: str | None, free_ports: bool) -> None:
    """Start the whole stack on this machine and keep it running until Ctrl-C.

    ZooKeeper, the brokers of every cluster, the mirrors, the registry, the collectors and the
    dashboards; data and logs go below ./.tallymark. A process that dies is started again.
    """
    die_with_parent()
    deployment = load(settings, running=False)
    if data:
        deployment = deployment.model_copy(update={"data_dir": Path(data)})
    if free_ports:
        deployment = with_free_ports(deployment)
    run_stack(deployment, lambda: _announce(deployment))


def _announce(deployment: Deployment) -> None:
    click.echo("\nThe stack is up. Ctrl-C stops it.")
    for cluster in deployment.clusters:
        click.echo(f"  {cluster.name + ' brokers':<20} {cluster.bootstrap_servers}")
    click.echo(f"  {'schema registry':<20} {deployment.registry.url}")
    if deployment.dashboards.embedded:
        click.echo(f"  {'dashboards':<20} {deployment.dashboards.url}")
