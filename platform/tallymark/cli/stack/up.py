"""``tallymark up``: the whole stack on this machine, from one settings file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import click

from tallymark.cli.admin.features import TOPICS_OF_BEFORE
from tallymark.clock import now_ms
from tallymark.coordination import TopicRegistry, ZooKeeper
from tallymark.coordination.cluster.feature_levels import read_features
from tallymark.coordination.cluster.raising import raise_features
from tallymark.deployment import Cluster, Deployment, load
from tallymark.errors import TallymarkError
from tallymark.processes.ports import with_brokers, with_free_ports
from tallymark.processes.process import die_with_parent
from tallymark.processes.zookeeper_credentials import access_of
from tallymark.replication.features import REPLICATION, raised
from tallymark.shell.run_stack import down_command, run_stack
from tallymark.trail import record_command


@click.command("up")
@click.option("--settings", type=click.Path(), help="The settings file (default: see docs).")
@click.option("--data", type=click.Path(file_okay=False), help="Where all data goes.")
@click.option("--free-ports", is_flag=True, help="Listen on free ports instead of the settings'.")
@click.option(
    "--brokers",
    type=click.IntRange(1, 20),
    help="So many brokers in each cluster, on free ports; topics have up to three replicas.",
)
def command(settings: str | None, data: str | None, free_ports: bool, brokers: int | None) -> None:
    """Start the whole stack on this machine and keep it running until Ctrl-C or ``tallymark down``.

    ZooKeeper, the brokers of every cluster, the mirrors, the registry, the collectors and the
    dashboards; data and logs go below ./.tallymark. A process that dies is started again.
    """
    die_with_parent()
    deployment = load(settings, running=False)
    if data:
        deployment = deployment.model_copy(update={"data_dir": Path(data)})
    if free_ports:
        deployment = with_free_ports(deployment)
    if brokers is not None and brokers > 1:
        deployment = with_brokers(deployment, brokers)
    grown = deployment.clusters if brokers is not None and brokers > 1 else ()
    replicas = WhenAllServe(grown, partial(_allow_replicas, deployment))

    def up() -> None:
        for cluster, why in replicas.again().items():
            click.echo(
                f"{cluster}: topics have one replica: {why}; then: "
                f"tallymark features upgrade {REPLICATION}=1 --cluster {cluster}",
                err=True,
            )
        _announce(deployment)

    run_stack(deployment, up, replicas)


class WhenAllServe:
    """Calls ``do`` for a cluster of ours as soon as all its brokers serve, before anything that
    uses the cluster is started; it is called with the name of each process that serves. The group
    of a collector makes ``__consumer_offsets``, which keeps the replicas that it may have at that
    moment. ``do`` returns why it failed, or ""."""

    def __init__(self, clusters: Iterable[Cluster], do: Callable[[Cluster], str]) -> None:
        self._waiting = [
            (one, {f"broker-{one.name}-{broker.id}" for broker in one.brokers})
            for one in clusters
            if one.embedded and one.kind == "tallymark"
        ]
        self._do = do
        self._failed: list[Cluster] = []

    def __call__(self, name: str) -> None:
        for cluster, brokers in self._waiting:
            if name in brokers:
                brokers.remove(name)
                if not brokers and self._do(cluster):
                    self._failed.append(cluster)

    def again(self) -> dict[str, str]:
        """Do once more what failed; by the names of clusters why it fails still."""
        tried = {cluster.name: self._do(cluster) for cluster in self._failed}
        return {name: why for name, why in tried.items() if why}


def _allow_replicas(deployment: Deployment, cluster: Cluster) -> str:
    """Raise what lets topics have several replicas; why it failed, or "". That is written where
    the brokers keep it, as the first users are: at the first start of a secured cluster there is
    no user yet whom the brokers would let do so."""
    connect = deployment.zookeeper.connect + cluster.root
    try:
        with ZooKeeper(connect, access=access_of(deployment, cluster)).start() as zookeeper:
            before = read_features(zookeeper).level(REPLICATION)
            if before >= 1:
                return ""
            raise_features(zookeeper, lambda now, brokers: raised(now, REPLICATION, 1, brokers))
            record_command(
                now_ms(),
                "UPDATE_FEATURES",
                ("feature", REPLICATION),
                before={"level": before},
                after={"level": 1},
            )
            if TopicRegistry(zookeeper).names():
                click.echo(f"{cluster.name}: {TOPICS_OF_BEFORE}", err=True)
    except TallymarkError as error:
        return str(error)
    return ""


def _announce(deployment: Deployment) -> None:
    click.echo(
        f"\nThe stack is up. Ctrl-C stops it, or in another terminal: {down_command(deployment)}"
    )
    for cluster in deployment.clusters:
        click.echo(f"  {cluster.name + ' brokers':<20} {cluster.bootstrap_servers}")
    if deployment.registry.embedded:
        click.echo(f"  {'schema registry':<20} {deployment.registry.url}")
    else:
        click.echo(f"  {'schema registry':<20} runs elsewhere: {deployment.registry.url}")
    if deployment.dashboards.embedded:
        click.echo(f"  {'dashboards':<20} {deployment.dashboards.url}")
