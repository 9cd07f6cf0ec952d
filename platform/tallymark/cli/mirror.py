"""``tallymark mirror``."""

from __future__ import annotations

import logging
from contextlib import closing

import click

from tallymark.cli.process import configure_logging, die_with_parent, stop_signals
from tallymark.deployment import load
from tallymark.mirror import Mirror


@click.command("mirror")
@click.option("--settings", type=click.Path(), help="The settings file of the deployment.")
@click.option("--from", "source", required=True, help="The cluster to copy.")
@click.option("--to", "target", required=True, help="The cluster to copy into.")
def command(settings: str | None, source: str, target: str) -> None:
    """Copy topics from one cluster into another until SIGTERM or Ctrl-C."""
    configure_logging()
    die_with_parent()
    deployment = load(settings)
    log = logging.getLogger("mirror")
    with stop_signals() as stopped, closing(Mirror(deployment, source, target)) as mirror:
        log.info("ready %s to %s", source, target)
        while not stopped.is_set():
            mirror.step()
        log.info("stopping")
