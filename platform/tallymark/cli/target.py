"""Which cluster a command talks to: by address, or by its name in the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tallymark.deployment import load
from tallymark.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """``--bootstrap-server``, or ``--cluster`` with ``--settings``."""
    for option in (
        click.option("--settings", type=click.Path(), help="The settings file."),
        click.option("--cluster", metavar="NAME", help="A cluster of the settings."),
        click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT,...", help="Brokers."),
    ):
        function = option(function)
    return function


def bootstrap_servers(bootstrap: str | None, cluster: str | None, settings: str | None) -> str:
    """The addresses; the deployment's first cluster when nothing is named.

    Raises UserError when both ways are used or the settings have no such cluster.
    """
    if bootstrap and (cluster or settings):
        raise UserError(
            "--bootstrap-server and --cluster both say where the cluster is", "give one of them"
        )
    if bootstrap:
        return bootstrap
    deployment = load(settings)
    if cluster is None:
        return deployment.clusters[0].bootstrap_servers
    try:
        return deployment.cluster(cluster).bootstrap_servers
    except KeyError as error:
        raise UserError(str(error.args[0]), "give --cluster one of these") from None
