"""The port to the store of users, quotas, access-control lists, and settings that were changed at
run time: in ZooKeeper, or in a file.

Everything here blocks; the command line calls it directly, the broker from a thread
(:mod:`~tallymark.broker.security.live`). Implementations:
:mod:`~tallymark.broker.security.file_store` and
:mod:`~tallymark.broker.security.zookeeper_store`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tallymark.protocol.acls.entry import Acl


@dataclass(frozen=True, slots=True)
class SecurityRecords:
    """The whole content of the store, in its stored form. Configs of users contain their SCRAM
    credentials, by mechanism, and their quotas; those of clients, and of users with clients,
    contain quotas. Those of brokers (by id) and groups are settings that were changed at run time.
    """

    salt_key: bytes = field(repr=False)
    """A secret of the cluster, from which the salts for unknown users are made."""
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    user_clients: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    acls: frozenset[Acl] = frozenset()


class SecurityStore(Protocol):
    """Methods raise TallymarkError (ConnectError, CoordinationError, UserError)."""

    def read(self) -> SecurityRecords:
        """The current content."""
        ...

    def alter_user(self, name: str, change: Mapping[str, str | None]) -> None:
        """Set configs of a user, remove those whose value is None."""
        ...

    def alter_client(self, name: str, change: Mapping[str, str | None]) -> None:
        """The same for a client id."""
        ...

    def alter_user_client(self, user: str, client: str, change: Mapping[str, str | None]) -> None:
        """The same for a user with a client id."""
        ...

    def alter_broker(self, name: str, change: Mapping[str, str | None]) -> None:
        """The same for the broker with the id ``name``."""
        ...

    def alter_group(self, name: str, change: Mapping[str, str | None]) -> None:
        """The same for a group."""
        ...

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries; it is no error if one exists, or does not exist, already."""
        ...

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback``, on any thread, after every change, also those of other processes;
        returns a function that ends this."""
        ...
