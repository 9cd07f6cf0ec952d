"""``tallymark audit collect`` and ``replay-journals``."""

from __future__ import annotations

from collections.abc import Iterable

import click

from tallymark.client.core.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Deployment, load
from tallymark.errors import UserError
from tallymark.processes.process import run_process
from tallymark.shell.target import clusters_named
from tallymark_audit.cli import options
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.metrics.endpoint import CollectorMetrics, serve_metrics
from tallymark_audit.reporters.journal.publisher import replay_journals as publish_all
from tallymark_audit.service import SESSION_MS, CollectorService


@click.command()
@options.settings
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    help="The cluster to count; may be repeated. 'all': every cluster of the settings.",
)
@options.bootstrap
@click.option(
    "--session-timeout-ms",
    default=SESSION_MS,
    show_default=True,
    type=click.IntRange(1000),
    help="How long the other collectors of a cluster wait for one that is silent.",
)
def collect(
    settings: str | None,
    clusters: tuple[str, ...],
    bootstraps: tuple[str, ...],
    session_timeout_ms: int,
) -> None:
    """Count clusters, judge what ends there, name what is missing. Runs until stopped.

    Start it again on other machines: the collectors of a cluster share its partitions, and take
    over from one that dies.
    """
    if not clusters and not bootstraps:
        raise click.UsageError("Missing option '--cluster', or '--bootstrap-server'.")
    running = _Collectors()

    def start() -> _Collectors:
        deployment = load(settings)
        every = tuple(cluster.name for cluster in deployment.clusters)
        chosen = every if "all" in clusters else clusters_named(deployment, clusters, bootstraps)
        running.start(deployment, chosen, session_timeout_ms)
        return running

    run_process(
        f"tallymark.audit.collect.{'+'.join((*clusters, *bootstraps))}", start, running.check
    )


class _Collectors:
    """The collectors of one process."""

    def __init__(self) -> None:
        self._services: list[CollectorService] = []
        self._metrics: CollectorMetrics | None = None

    def start(self, deployment: Deployment, clusters: Iterable[str], session_ms: int) -> None:
        """One of each cluster, or none where one cannot start."""
        try:
            for cluster in clusters:
                self._services.append(CollectorService(deployment, cluster, session_ms))
            self._metrics = serve_metrics(deployment, self._services)
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """UserError when one has ended by itself."""
        for service in self._services:
            service.check()

    def close(self) -> None:
        """Stop all."""
        if self._metrics is not None:
            self._metrics.close()
        for service in self._services:
            service.close()


@click.command("replay-journals")
@options.settings
@click.option("--cluster", help="The cluster whose producers left the journals.")
@options.bootstrap
def replay_journals(settings: str | None, cluster: str | None, bootstraps: tuple[str, ...]) -> None:
    """Publish the claims that killed producers left on this host."""
    deployment = load(settings)
    named = clusters_named(deployment, (cluster,) if cluster else (), bootstraps)
    if len(named) != 1:
        raise click.UsageError("Give one cluster with --cluster, or with --bootstrap-server.")
    (cluster,) = named
    connection, kept_ms = _connection(deployment, cluster), deployment.audit.retention_ms
    count = publish_all(connection, deployment.journal_dir, kept_ms, wall_clock())
    click.echo(f"published the last claims of {count} producer runs to {cluster}")


def _connection(deployment: Deployment, cluster: str) -> ConnectionSettings:
    """How clients reach the cluster. UserError: there is no such cluster."""
    try:
        return connection_settings(deployment.cluster(cluster))
    except KeyError as error:
        raise UserError(str(error.args[0]), "name one of them") from error


__all__ = ["collect", "replay_journals"]
