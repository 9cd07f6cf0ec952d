"""Users, tokens and roles of one file, which is read again when it has changed
(:class:`tallymark.reread_file.RereadFile`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tallymark.net.web.login import Passwords
from tallymark.reread_file import RereadFile
from tallymark_schema_registry.access.document import Document, read_document
from tallymark_schema_registry.access.grants import ALL, Grant, Grants, Principal
from tallymark_schema_registry.access.hashes import PasswordHash, token_digest

_MOST_SHARED: Final = 10_000


@dataclass(frozen=True, slots=True)
class UserEntry:
    """One user."""

    password: PasswordHash
    principal: Principal


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One token. ``expires``: seconds since 1970; infinite where it never does."""

    principal: Principal
    expires: float


@dataclass(frozen=True, slots=True)
class Accounts:
    """What a file says. ``tokens`` by the digest of the token. Those who have the same grants share
    them, and with them what is remembered for one."""

    users: dict[str, UserEntry] = field(default_factory=dict)
    tokens: dict[str, TokenEntry] = field(default_factory=dict)
    roles: dict[str, tuple[Grant, ...]] = field(default_factory=dict)
    shared: dict[frozenset[Grant], Grants] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> Accounts:
        """Those of a file."""
        found = cls()
        for name, part in document.roles.items():
            found.roles[name] = tuple(part.listed())
        for name, user in document.users.items():
            principal = Principal(name, found.grants(document.grants_of(user)))
            found.users[name] = UserEntry(PasswordHash.parse(user.password), principal)
        for name, token in document.tokens.items():
            principal = Principal(f"token:{name}", found.grants(document.grants_of(token)))
            expires = token.expires.timestamp() if token.expires else float("inf")
            found.tokens[token.sha256] = TokenEntry(principal, expires)
        return found

    def of_roles(self, names: Iterable[str]) -> Grants:
        """The grants of some roles; names that are no role give none."""
        return self.grants(grant for name in names for grant in self.roles.get(name, ()))

    def grants(self, listed: Iterable[Grant]) -> Grants:
        """The grants, the same object for the same ones."""
        key = frozenset(listed)
        found = self.shared.get(key)
        if found is None:
            if len(self.shared) >= _MOST_SHARED:
                self.shared.clear()
            found = self.shared[key] = Grants(key)
        return found


class UsersWithAllRights:
    """The users of a file that says nothing of rights (:class:`tallymark.net.web.users.WebUsers`):
    each of them may do everything."""

    def __init__(self, users: Passwords) -> None:
        self._users = users

    @property
    def version(self) -> object:
        """Differs after the users have changed."""
        return self._users.version

    def knows(self, name: str) -> bool:
        """Whether there is such a user; returns at once."""
        return self._users.knows(name)

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's; takes milliseconds."""
        return self._users.fits(name, password)

    def user(self, name: str) -> Principal | None:
        """The user who has logged in by this name."""
        return Principal(name, ALL) if self._users.knows(name) else None

    def token(self, token: bytes) -> None:
        """There are no tokens."""

    def of_roles(self, names: Iterable[str]) -> Grants:
        """There are no roles."""
        return Grants()


class AccessFile:
    """The accounts of the file at ``path``. Thread-safe. ``clock`` is monotonic, in seconds.

    UserError where it cannot be read, or is wrong, at first."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        what = "the users, tokens and roles of the registry"
        self._file = RereadFile(path, _read, what, clock)

    @property
    def version(self) -> int:
        """Counts how often the accounts were replaced."""
        return self._file.version

    def knows(self, name: str) -> bool:
        """Whether there is such a user; returns at once."""
        return name in self._file.value.users

    def fits(self, name: str, password: str) -> bool:
        """Whether the password is the user's; takes long on purpose."""
        user = self._file.value.users.get(name)
        return user is not None and user.password.fits(password)

    def user(self, name: str) -> Principal | None:
        """The user who has logged in by this name."""
        found = self._file.value.users.get(name)
        return found.principal if found else None

    def token(self, token: bytes) -> TokenEntry | None:
        """Whose token it is, whether or not it has expired."""
        return self._file.value.tokens.get(token_digest(token))

    def of_roles(self, names: Iterable[str]) -> Grants:
        """The grants of some roles; names that are no role give none."""
        return self._file.value.of_roles(names)


def _read(path: Path) -> Accounts:
    return Accounts.of(read_document(path))
