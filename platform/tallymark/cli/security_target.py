"""Where the users and access-control lists of a cluster are: its ZooKeeper, or a data folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from tallymark.broker.security_file import FileSecurityStore
from tallymark.broker.security_store import SecurityStore
from tallymark.broker.security_zookeeper import ZooKeeperSecurityStore
from tallymark.coordination import ZooKeeper
from tallymark.coordination.access import Access
from tallymark.deployment import load
from tallymark.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


def store_options(function: F) -> F:
    """``--cluster`` with ``--settings``, or ``--zookeeper``, or ``--data``."""
    for option in (
        click.option(
            "--data",
            type=click.Path(file_okay=False),
            help="The data folder of a broker that runs without ZooKeeper.",
        ),
        click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="The cluster's ZooKeeper."),
        click.option("--settings", type=click.Path(), help="The settings file."),
        click.option("--cluster", metavar="NAME", help="A cluster of the settings."),
    ):
        function = option(function)
    return function


@contextmanager
def opened_store(
    cluster: str | None, settings: str | None, zookeeper: str | None, data: str | None
) -> Iterator[SecurityStore]:
    """The store that the options name; the deployment's first cluster when none is named.
    UserError when they name several."""
    if sum(value is not None for value in (cluster or settings, zookeeper, data)) > 1:
        raise UserError("--cluster, --zookeeper and --data say different things", "give one")
    if data is not None:
        yield FileSecurityStore(Path(data))
        return
    known = Access.from_environment()
    # Whoever has the brokers' credentials writes what only they may change, and read.
    access = replace(known, closed=bool(known.user))
    connect = zookeeper or _of_deployment(cluster, settings)
    with ZooKeeper(connect, access=access).start(create_root=True) as session:
        yield ZooKeeperSecurityStore(session)


def _of_deployment(cluster: str | None, settings: str | None) -> str:
    deployment = load(settings)
    try:
        chosen = deployment.cluster(cluster) if cluster else deployment.clusters[0]
    except KeyError as error:
        raise UserError(str(error.args[0]), "give --cluster one of these") from None
    return deployment.zookeeper.connect + chosen.root
