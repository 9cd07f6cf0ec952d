"""``tallymark audit collect``, ``replay-journals`` and ``retire``."""

from __future__ import annotations

import click

from tallymark.cli.process import run_process
from tallymark.client.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark_audit.cli import options
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.collector.service import CollectorService
from tallymark_audit.journal.publisher import replay_journals as publish_all
from tallymark_audit.store import claims, open_store


@click.command()
@options.settings
@click.option("--cluster", required=True, help="The cluster to count.")
def collect(settings: str | None, cluster: str) -> None:
    """Count a cluster, judge what ends there, name what is missing. Runs until stopped.

    One collector a cluster: a second one takes over, the first one ends.
    """
    service: CollectorService | None = None

    def start() -> CollectorService:
        nonlocal service
        service = CollectorService(load(settings), cluster)
        return service

    def check() -> None:
        if service is not None:
            service.check()

    run_process(f"tallymark.audit.collect.{cluster}", start, check)


@click.command("replay-journals")
@options.settings
@click.option("--cluster", required=True, help="The cluster whose producers left the journals.")
def replay_journals(settings: str | None, cluster: str) -> None:
    """Publish the claims that killed producers left on this host."""
    deployment = load(settings)
    count = publish_all(_connection(deployment, cluster), deployment.journal_dir, wall_clock())
    click.echo(f"published the last claims of {count} producer runs to {cluster}")


@click.command()
@options.settings
@click.argument("reporter")
def retire(settings: str | None, reporter: str) -> None:
    """End a REPORTER that died and will not return: windows no longer wait for it.

    What it acknowledged before its last report and nobody recorded stays unclaimed.
    """
    with open_store(load(settings).audit_store) as store, store.write() as connection:
        clusters = claims.retire(connection, reporter, wall_clock())
    click.echo(f"{reporter} is retired on {', '.join(clusters)}")


def _connection(deployment: Deployment, cluster: str) -> ConnectionSettings:
    """How clients reach the cluster. UserError: there is no such cluster."""
    try:
        return connection_settings(deployment.cluster(cluster))
    except KeyError as error:
        raise UserError(str(error.args[0]), "name one of them") from error


__all__ = ["collect", "replay_journals", "retire"]
