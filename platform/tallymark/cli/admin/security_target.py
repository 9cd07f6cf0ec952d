"""Where ``tallymark users`` and ``tallymark acls`` read and write: the brokers, the cluster's
ZooKeeper, or a data folder.

The first user cannot be added by a client that is logged in: where no broker is named, users and
entries are written where the brokers keep them. With ``--bootstrap-server`` the brokers are asked,
those of Apache Kafka as well as ours (:mod:`.security_by_brokers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark.protocol.acls.entry import Acl
from tallymark.shell.target import chosen_cluster, cluster_options, take_target

if TYPE_CHECKING:
    from tallymark.coordination.session.access import Access

F = TypeVar("F", bound=Callable[..., Any])


class Security(Protocol):
    """Users and access-control entries, wherever they are kept."""

    def users(self) -> Mapping[str, Mapping[str, int]]:
        """User -> {mechanism: iterations}."""
        ...

    def set_password(
        self, name: str, password: str, mechanisms: Iterable[str], iterations: int
    ) -> None:
        """By these mechanisms; what the user has of others stays."""
        ...

    def remove_credentials(self, name: str, mechanisms: Iterable[str]) -> None:
        """It logs in by these, which it has, no more; a user without any is none."""
        ...

    def acls(self) -> frozenset[Acl]: ...

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None: ...


def store_options(function: F) -> F:
    """The options that name a cluster, or ``--zookeeper``, or ``--data``."""
    function = cluster_options(function)
    for option in (
        click.option(
            "--data",
            type=click.Path(file_okay=False),
            help="The data folder of a broker that runs without ZooKeeper.",
        ),
        click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="The cluster's ZooKeeper."),
    ):
        function = option(function)
    return function


@contextmanager
def opened_store(options: dict[str, Any]) -> Iterator[Security]:
    """What the options name, taken out of ``options``; the ZooKeeper of the deployment's first
    cluster when nothing is named. UserError when they name several."""
    zookeeper, data = options.pop("zookeeper"), options.pop("data")
    brokers = options["bootstrap"] or options["command_config"]
    named = options["cluster"] or options["settings"]
    if sum(map(bool, (options["bootstrap"] or named, zookeeper, data))) > 1:
        raise UserError(
            "--bootstrap-server, --cluster, --zookeeper and --data say different things", "give one"
        )
    if brokers and not (zookeeper or data):
        from tallymark.cli.admin.security_by_brokers import SecurityByBrokers
        from tallymark.client.admin.admin import Admin

        with Admin(**take_target(options).client) as admin:
            yield SecurityByBrokers(admin)
    elif data is not None:
        from tallymark.broker.security.file_store import FileSecurityStore
        from tallymark.cli.admin.security_in_store import SecurityInStore

        yield SecurityInStore(FileSecurityStore(Path(data)), Path(data))
    else:
        from tallymark.broker.security.zookeeper_store import ZooKeeperSecurityStore
        from tallymark.cli.admin.security_in_store import SecurityInStore
        from tallymark.coordination import ZooKeeper  # kazoo
        from tallymark.coordination.session.access import Access

        # With the brokers' credentials a command reads and writes what only they may.
        connect, access = zookeeper, Access.from_environment()
        if not connect:
            connect, access = _of_the_settings(options["cluster"], options["settings"])
        with ZooKeeper(connect, access=access).start(create_root=True) as session:
            yield SecurityInStore(ZooKeeperSecurityStore(session))


def _of_the_settings(cluster: str | None, settings: str | None) -> tuple[str, Access]:
    """Where the cluster's ZooKeeper is, and how its brokers are known there."""
    from tallymark.processes.zookeeper_credentials import access_of

    deployment = load(settings)
    chosen, connect = chosen_cluster(deployment, cluster)
    return connect, access_of(deployment, chosen)
