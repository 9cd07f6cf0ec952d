"""Users and access-control entries where brokers keep them: in ZooKeeper, or in a file."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from tallymark.broker.acl_rules import Acl
from tallymark.broker.security_store import SecurityStore
from tallymark.net.credential_text import parse_credential, stored_text
from tallymark.net.scram import HASHES, ScramCredential

_SALT_BYTES = 32


class KeptSecurity:
    """A store, read and written as the brokers do."""

    def __init__(self, store: SecurityStore) -> None:
        self._store = store

    def users(self) -> dict[str, dict[str, int]]:
        """User -> {mechanism: iterations}."""
        found: dict[str, dict[str, int]] = {}
        for name, configs in self._store.read().users.items():
            held = {m: parse_credential(m, configs[m]).iterations for m in HASHES if m in configs}
            if held:
                found[name] = held
        return found

    def set_password(
        self, name: str, password: str, mechanisms: Iterable[str], iterations: int
    ) -> None:
        """By these mechanisms; what the user has of others stays."""
        change: dict[str, str | None] = {}
        for mechanism in mechanisms:
            salt = secrets.token_bytes(_SALT_BYTES)
            credential = ScramCredential.of_password(mechanism, password, salt, iterations)
            change[mechanism] = stored_text(credential)
        self._store.alter_user(name, change)

    def remove_credentials(self, name: str, mechanisms: Iterable[str]) -> None:
        """It logs in by these no more."""
        self._store.alter_user(name, dict.fromkeys(mechanisms))

    def acls(self) -> frozenset[Acl]:
        """All entries."""
        return self._store.read().acls

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries."""
        self._store.change_acls(add=add, remove=remove)
