"""Users and ACL entries as the brokers return and change them, ours or Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tallymark.client.admin.acls import AclQuery, acl_of, entry_of
from tallymark.client.admin.admin import Admin
from tallymark.client.admin.users import NewPassword
from tallymark.protocol.acls.entry import Acl


class SecurityByBrokers:
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
        return frozenset(map(acl_of, self._admin.describe_acls()))

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries."""
        added = list(map(entry_of, add))
        removed = [AclQuery.exactly(entry_of(acl)) for acl in remove]
        if added:
            self._admin.create_acls(added).check()
        if removed:
            self._admin.delete_acls(removed).check()
