"""Users and access-control entries as the brokers tell and change them, ours or Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tallymark.broker.security.acl_filter import entry
from tallymark.client.admin.acls import AclEntry, AclQuery
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.users import NewPassword
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import ALLOW, DENY, OPERATIONS, PATTERNS, RESOURCES


class AskedSecurity:
    """A cluster's admin, in the words of the commands. KafkaError where it refuses."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def users(self) -> Mapping[str, Mapping[str, int]]:
        """User -> {mechanism: iterations}."""
        return self._admin.describe_users().check()

    def set_password(
        self, name: str, password: str, mechanisms: Iterable[str], iterations: int
    ) -> None:
        """By these mechanisms; what the user has of others stays."""
        new = [NewPassword(name, password, mechanism, iterations) for mechanism in mechanisms]
        self._admin.alter_users(new).check()

    def remove_credentials(self, name: str, mechanisms: Iterable[str]) -> None:
        """It logs in by these no more."""
        self._admin.alter_users(remove=[(name, each) for each in mechanisms]).check()

    def acls(self) -> frozenset[Acl]:
        """All entries."""
        return frozenset(map(_acl, self._admin.describe_acls()))

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries."""
        added, removed = list(map(_entry, add)), list(map(_exactly, remove))
        if added:
            self._admin.create_acls(added).check()
        if removed:
            self._admin.delete_acls(removed).check()


def _acl(told: AclEntry) -> Acl:
    return entry(
        RESOURCES[told.resource],
        told.name,
        PATTERNS[told.pattern],
        told.principal,
        told.host,
        OPERATIONS[told.operation],
        ALLOW if told.permission == "allow" else DENY,
    )


def _entry(acl: Acl) -> AclEntry:
    return AclEntry(
        _word(RESOURCES, acl.kind),
        acl.name,
        acl.principal,
        _word(OPERATIONS, acl.operation),
        "allow" if acl.allow else "deny",
        acl.host,
        _word(PATTERNS, acl.pattern),
    )


def _exactly(acl: Acl) -> AclQuery:
    one = _entry(acl)
    return AclQuery(
        one.resource,
        one.name,
        one.principal,
        one.operation,
        one.permission,
        one.host,
        one.pattern,
    )


def _word(table: Mapping[str, int], number: int) -> str:
    return next(word for word, each in table.items() if each == number)
