"""The port behind which users, quotas and access-control lists are kept: ZooKeeper, or a file.

Everything here blocks; the command line calls it as it is, the broker from a thread
(:mod:`~tallymark.broker.security`). Implementations: :mod:`~tallymark.broker.security_file` and
:mod:`~tallymark.broker.security_zookeeper`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tallymark.broker.acl_rules import Acl

DEFAULT_NAME = "<default>"
"""Stands for every user, or every client, that has nothing of its own."""


@dataclass(frozen=True, slots=True)
class SecurityRecords:
    """Everything that is kept, as it is kept. Configs of users hold their SCRAM credentials, by
    mechanism, and their quotas; those of clients hold quotas."""

    salt_key: bytes = field(repr=False)
    """A secret of the cluster, from which the salts of users that there are not are made."""
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    clients: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    acls: frozenset[Acl] = frozenset()


class SecurityStore(Protocol):
    """Raises TallymarkError (ConnectError, CoordinationError, UserError) when it cannot."""

    def read(self) -> SecurityRecords:
        """Everything, as it is now."""
        ...

    def alter_user(self, name: str, change: Mapping[str, str | None]) -> None:
        """Set configs of a user, remove those whose value is None."""
        ...

    def alter_client(self, name: str, change: Mapping[str, str | None]) -> None:
        """The same for a client id."""
        ...

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries; what is there, or not there, already is fine."""
        ...

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback``, on any thread, after every change, also of others; returns what ends
        that."""
        ...
