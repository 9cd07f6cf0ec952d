"""Users and access-control entries where brokers keep them: in ZooKeeper, or in a file."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from tallymark.broker.security.store import SecurityStore
from tallymark.clock import now_ms
from tallymark.net.sasl.credential_text import parse_credential, stored_text
from tallymark.net.sasl.scram import HASHES, ScramCredential
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.text import kind_name, stored
from tallymark.trail import record_command

_SALT_BYTES = 32


class SecurityInStore:
    """A store, read and written as the brokers do."""

    def __init__(self, store: SecurityStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder

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
        after = {each: {"iterations": iterations} for each in change}
        self._tell("ALTER_USER_SCRAM_CREDENTIALS", ("user", name), after)

    def remove_credentials(self, name: str, mechanisms: Iterable[str]) -> None:
        """It logs in by these no more."""
        gone: dict[str, str | None] = dict.fromkeys(mechanisms)
        self._store.alter_user(name, gone)
        self._tell("ALTER_USER_SCRAM_CREDENTIALS", ("user", name), gone)

    def acls(self) -> frozenset[Acl]:
        """All entries."""
        return self._store.read().acls

    def change_acls(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        """Add and remove entries."""
        added, removed = list(add), list(remove)
        self._store.change_acls(add=added, remove=removed)
        for acl in added:
            self._tell("CREATE_ACLS", (f"acl of {kind_name(acl.kind)}", acl.name), stored(acl))
        for acl in removed:
            where = (f"acl of {kind_name(acl.kind)}", acl.name)
            self._tell("DELETE_ACLS", where, None, before=stored(acl))

    def _tell(
        self, action: str, resource: tuple[str, str], after: object, before: object = None
    ) -> None:
        """In the trail: no broker was asked that could write it down."""
        record_command(
            now_ms(),
            action,
            resource,
            before=before,
            after=after,
            folder=self._folder,
        )
