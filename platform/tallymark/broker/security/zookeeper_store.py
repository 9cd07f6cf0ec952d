"""Users, quotas and access-control lists in ZooKeeper. All of it blocks."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tallymark.broker.security.store import SecurityRecords
from tallymark.coordination import ZooKeeper, paths
from tallymark.coordination.security.acls import AclRegistry, AclResource
from tallymark.coordination.security.users import EntityConfigs
from tallymark.errors import KafkaError, UserError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.text import kind_name, restored, stored

log: Final = logging.getLogger(__name__)


class ZooKeeperSecurityStore:
    """The :class:`~tallymark.broker.security.store.SecurityStore` of a cluster; the session is
    the caller's."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._users = EntityConfigs(zookeeper, paths.USERS)
        self._clients = EntityConfigs(zookeeper, paths.CLIENTS)
        self._brokers = EntityConfigs(zookeeper, paths.BROKER_CONFIGS)
        self._groups = EntityConfigs(zookeeper, paths.GROUP_CONFIGS)
        self._acls = AclRegistry(zookeeper)

    def read(self) -> SecurityRecords:
        """See the port. An unknown kind of entry is logged and left out if it allows something; one
        that denies must not be lost, so it is an error."""
        acls: set[Acl] = set()
        for resource, entries in self._acls.read().items():
            for values in entries:
                try:
                    acls.add(restored(resource.kind, resource.pattern, resource.name, values))
                except (KeyError, ValueError, KafkaError) as error:
                    what = f"{resource.path} has an entry that is not understood: {values}"
                    if values.get("permissionType") != "Allow":
                        raise UserError(what, "mend or remove it") from error
                    log.error("%s", what)
        return SecurityRecords(
            bytes.fromhex(self._users.salt_key()),
            self._users.read(),
            self._clients.read(),
            self._users.read_pairs(),
            self._brokers.read(),
            self._groups.read(),
            frozenset(acls),
        )

    def alter_user(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._users.alter(name, change)

    def alter_client(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._clients.alter(name, change)

    def alter_user_client(self, user: str, client: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._users.alter_pair(user, client, change)

    def alter_broker(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._brokers.alter(name, change)

    def alter_group(self, name: str, change: Mapping[str, str | None]) -> None:
        """See the port."""
        self._groups.alter(name, change)

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """See the port. One resource after the other; the changes of each are made all or none."""
        wanted: dict[AclResource, tuple[list[Acl], list[Acl]]] = defaultdict(lambda: ([], []))
        for acl in add:
            wanted[_resource(acl)][0].append(acl)
        for acl in remove:
            wanted[_resource(acl)][1].append(acl)
        for resource, (added, removed) in wanted.items():
            self._acls.change(resource, map(stored, added), map(stored, removed))

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """See the port."""
        followed = (self._users, self._clients, self._brokers, self._groups, self._acls)
        watches = [each.watch(callback) for each in followed]

        def cancel() -> None:
            for watch in watches:
                watch.cancel()

        return cancel


def _resource(acl: Acl) -> AclResource:
    return AclResource(kind_name(acl.kind), acl.pattern, acl.name)
