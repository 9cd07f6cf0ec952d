"""Which cluster a command talks to, and its log-in: by address, or by its name in the settings.

One set of options for every command that talks to brokers (:func:`cluster_options`), and what they
mean (:func:`take_target`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click

from tallymark.deployment import load
from tallymark.deployment.places import find_places
from tallymark.errors import UserError

if TYPE_CHECKING:
    from tallymark.client.core.security.deployment import ConnectionSettings
    from tallymark.client.core.security.security import SecuritySettings
    from tallymark.deployment import Cluster, Deployment
    from tallymark.deployment.places import ClusterPlace, Places

F = TypeVar("F", bound=Callable[..., Any])

_CONFIG = "Security settings of Kafka's client.properties."
_NAMES = ("bootstrap", "command_config", "cluster", "settings")


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster: the keyword arguments of its clients, and where its ZooKeeper is ("" if no option
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
        click.option(
            "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT,...", help="Brokers."
        ),
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
    security = _read_config(config) if config else None
    if bootstrap:
        return Target({"bootstrap_servers": bootstrap, **(security or {})})
    places = find_places(settings)
    if places is not None:
        place, zookeeper = chosen_cluster(places, cluster)
        if not place.secured or security is not None:
            return Target(
                {"bootstrap_servers": place.bootstrap_servers, **(security or {})}, zookeeper
            )
    chosen, zookeeper = find_cluster(cluster, settings)
    if security is None:
        from tallymark.client.core.security.deployment import connection_settings

        return Target(connection_settings(chosen), zookeeper)
    return Target({"bootstrap_servers": chosen.bootstrap_servers, **security}, zookeeper)


def _read_config(path: str) -> SecuritySettings:
    from tallymark.shell.command_config import read_command_config

    return read_command_config(path)


def _complete_cluster(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    try:
        clusters = load(context.params.get("settings")).clusters
    except UserError:  # the user is still typing
        return []
    return [cluster.name for cluster in clusters if cluster.name.startswith(incomplete)]


def cluster_at(deployment: Deployment, bootstrap: str) -> Cluster | None:
    """The cluster of the settings that has a broker at one of these addresses; None: none has."""
    named = {address.strip() for address in bootstrap.split(",")}
    for cluster in deployment.clusters:
        if named & {broker.address for broker in cluster.brokers}:
            return cluster
    return None


def clusters_named(
    deployment: Deployment, names: Iterable[str], bootstraps: Iterable[str]
) -> tuple[str, ...]:
    """``names``, and what the settings call the clusters at ``bootstraps``; each once. UserError:
    the settings have no cluster there."""
    found = list(names)
    for bootstrap in bootstraps:
        cluster = cluster_at(deployment, bootstrap)
        if cluster is None:
            there = ", ".join(
                f"{one.name} at {one.bootstrap_servers}" for one in deployment.clusters
            )
            raise UserError(f"no cluster of the settings is at {bootstrap}", f"there are: {there}")
        found.append(cluster.name)
    return tuple(dict.fromkeys(found))


def find_cluster(cluster: str | None, settings: str | None) -> tuple[Cluster, str]:
    """The cluster of that name in the settings, or the first one; and where its ZooKeeper is."""
    return chosen_cluster(load(settings), cluster)


@overload
def chosen_cluster(described: Deployment, name: str | None) -> tuple[Cluster, str]: ...
@overload
def chosen_cluster(described: Places, name: str | None) -> tuple[ClusterPlace, str]: ...
def chosen_cluster(
    described: Deployment | Places, name: str | None
) -> tuple[Cluster | ClusterPlace, str]:
    """The cluster of that name, or the first one; and where its ZooKeeper is."""
    try:
        chosen = described.cluster(name) if name else described.clusters[0]
    except KeyError as error:
        raise UserError(str(error.args[0]), "give --cluster one of these") from None
    return chosen, described.zookeeper.connect + chosen.root
