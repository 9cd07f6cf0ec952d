"""Where groups are kept, for the commands about them: the brokers, ZooKeeper, or both.

Consumers of the ZooKeeper kind (:class:`~tallymark.client.ConsumerConnector`, by default) register
and store offsets there; all others, and all groups on Apache Kafka, with the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.groups import GroupDescription, GroupListing
from tallymark.client.admin.results import Results
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError, UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.shell.absent import absent
from tallymark.shell.target import Target, take_target

if TYPE_CHECKING:
    from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups

F = TypeVar("F", bound=Callable[..., Any])
_ZOOKEEPER = "The groups in this ZooKeeper; those of the settings' cluster are known."
_ONLY = "Only groups that are kept there. Default: both, as far as is known."
_NO_GROUP = CODES["GROUP_ID_NOT_FOUND"]
BROKERS = "brokers"
ZOOKEEPER = "zookeeper"


class GroupStore(Protocol):
    """One place where groups are kept."""

    where: str

    def listing(self) -> tuple[dict[str, GroupListing], list[TallymarkError]]: ...

    def describe(self, group: str) -> GroupDescription: ...

    def offsets(self, group: str) -> dict[TopicPartition, int]: ...

    def set_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, TallymarkError]: ...

    def delete(self, group: str) -> None: ...


class BrokerGroups:
    """Groups that brokers coordinate."""

    where = BROKERS

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def listing(self) -> tuple[dict[str, GroupListing], list[TallymarkError]]:
        found = self._admin.list_groups()
        return dict(found.groups), list(found.errors.values())

    def describe(self, group: str) -> GroupDescription:
        return self._admin.describe_groups([group])[group]

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return {at: one.offset for at, one in self._admin.group_offsets(group).check().items()}

    def set_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, TallymarkError]:
        results: Results[TopicPartition, None] = self._admin.alter_group_offsets(group, offsets)
        return results.errors

    def delete(self, group: str) -> None:
        self._admin.delete_groups([group]).check()


class GroupsInZooKeeper:
    """Groups that coordinate themselves."""

    where = ZOOKEEPER

    def __init__(self, groups: ZooKeeperGroups) -> None:
        self._groups = groups

    def listing(self) -> tuple[dict[str, GroupListing], list[TallymarkError]]:
        return self._groups.list_groups(), []

    def describe(self, group: str) -> GroupDescription:
        return self._groups.describe_group(group)

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return self._groups.group_offsets(group)

    def set_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, TallymarkError]:
        self._groups.alter_group_offsets(group, offsets)
        return {}

    def delete(self, group: str) -> None:
        self._groups.delete_group(group)


def store_options(function: F) -> F:
    """``--zookeeper`` and ``--kept``."""
    for option in (
        click.option("--kept", type=click.Choice([BROKERS, ZOOKEEPER]), help=_ONLY),
        click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=_ZOOKEEPER),
    ):
        function = option(function)
    return function


@contextmanager
def opened_stores(options: dict[str, Any]) -> Iterator[tuple[Admin, list[GroupStore]]]:
    """The cluster's admin, and the stores that the options of :func:`store_options` and of
    :func:`~tallymark.shell.target.cluster_options` name, taken out of ``options``.

    A ZooKeeper that only the settings name may be away, or have nothing of the cluster: then the
    brokers' groups are all there are, and the command says so."""
    given, kept = options.pop("zookeeper"), options.pop("kept")
    target: Target = take_target(options)
    connect = given or target.zookeeper
    if kept == ZOOKEEPER and not connect:
        raise UserError("where is the cluster's ZooKeeper?", "give --zookeeper or --cluster")
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(**target.client))
        stores: list[GroupStore] = [] if kept == ZOOKEEPER else [BrokerGroups(admin)]
        if connect and kept != BROKERS:
            from tallymark.client.admin.zookeeper_groups import ZooKeeperGroups
            from tallymark.coordination import ZooKeeper  # kazoo

            try:
                session = stack.enter_context(ZooKeeper(connect).start())
            except (ConnectError, UserError) as error:
                if given or kept:
                    raise
                click.echo(f"tallymark: groups in ZooKeeper are left out: {error}", err=True)
            else:
                stores.append(GroupsInZooKeeper(ZooKeeperGroups(session)))
        yield admin, stores


def find_group(stores: Sequence[GroupStore], group: str) -> tuple[GroupStore, GroupDescription]:
    """The group where it is kept. UserError when it is nowhere, or in both."""
    found = look_for_group(stores, group)
    if found is None:
        raise absent("group", group)
    return found


def look_for_group(
    stores: Sequence[GroupStore], group: str
) -> tuple[GroupStore, GroupDescription] | None:
    """The group where it is kept; None when it is nowhere. UserError when it is in both."""
    found: list[tuple[GroupStore, GroupDescription]] = []
    for store in stores:
        try:
            found.append((store, store.describe(group)))
        except KafkaError as error:
            if error.code != _NO_GROUP:
                raise
    if len(found) > 1:
        raise UserError(
            f"the brokers and ZooKeeper both have a group {group}", "give --kept to name one"
        )
    return found[0] if found else None
