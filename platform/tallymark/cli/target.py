"""Which cluster a command talks to, and how it gets in: by address, or by its name in the settings.

One set of options for every command that talks to brokers (:func:`cluster_options`), and what they
mean (:func:`take_target`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from tallymark.cli.command_config import read_command_config
from tallymark.client.security.deployment import ConnectionSettings, connection_settings
from tallymark.deployment import Cluster, load
from tallymark.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG = "Security settings of Kafka's client.properties."
_NAMES = ("bootstrap", "command_config", "cluster", "settings")


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster: the keyword arguments of its clients, and where its ZooKeeper is ("" if nobody
    said)."""

    client: ConnectionSettings
    zookeeper: str = ""


def cluster_options(function: F) -> F:
    """``--bootstrap-server`` with ``--command-config``, or ``--cluster`` with ``--settings``."""
    for option in (
        click.option("--settings", type=click.Path(), help="The settings file."),
        click.option(
            "--cluster",
            metavar="NAME",
            help="A cluster of the settings.",
            shell_complete=_complete_cluster,
        ),
        click.option("--command-config", type=click.Path(dir_okay=False), help=_CONFIG),
        click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT,...", help="Brokers."),
    ):
        function = option(function)
    return function


def take_target(options: dict[str, Any]) -> Target:
    """What :func:`cluster_options` were given, taken out of ``options``; the deployment's first
    cluster when nothing is named. A ``--command-config`` goes before the settings' security.

    Raises UserError when both ways are used or the settings have no such cluster.
    """
    bootstrap, config, cluster, settings = (options.pop(name) for name in _NAMES)
    if bootstrap and (cluster or settings):
        raise UserError(
            "--bootstrap-server and --cluster both say where the cluster is", "give one of them"
        )
    security = read_command_config(config) if config else None
    if bootstrap:
        return Target({"bootstrap_servers": bootstrap, **(security or {})})
    chosen, zookeeper = find_cluster(cluster, settings)
    if security is None:
        return Target(connection_settings(chosen), zookeeper)
    return Target({"bootstrap_servers": chosen.bootstrap_servers, **security}, zookeeper)


def _complete_cluster(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    try:
        clusters = load(context.params.get("settings")).clusters
    except UserError:  # somebody is still typing
        return []
    return [cluster.name for cluster in clusters if cluster.name.startswith(incomplete)]


def find_cluster(cluster: str | None, settings: str | None) -> tuple[Cluster, str]:
    """The cluster of that name in the settings, or the first one; and where its ZooKeeper is."""
    deployment = load(settings)
    try:
        chosen = deployment.cluster(cluster) if cluster else deployment.clusters[0]
    except KeyError as error:
        raise UserError(str(error.args[0]), "give --cluster one of these") from None
    return chosen, deployment.zookeeper.connect + chosen.root
