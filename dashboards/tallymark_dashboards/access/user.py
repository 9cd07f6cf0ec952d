"""The user of a request, and what the user's roles allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a user may do. An operator may also do what a viewer may."""

    VIEWER = "viewer"
    """Look at every page."""
    OPERATOR = "operator"
    """Accept windows, retire reporters, pause alerts, repair."""


@dataclass(frozen=True, slots=True)
class User:
    """A user who has logged in. ``name`` is "" where no log-in is configured: such a user may view
    pages and may not change anything."""

    name: str = ""
    roles: frozenset[Role] = frozenset((Role.VIEWER,))

    @classmethod
    def of(cls, name: str, roles: Iterable[Role]) -> User:
        """The user of that name, with the roles and what they include."""
        given = frozenset(roles)
        includes = (Role.VIEWER,) if Role.OPERATOR in given else ()
        return cls(name, given.union(includes))

    @property
    def may_view(self) -> bool:
        """Whether pages are shown to this user."""
        return Role.VIEWER in self.roles

    @property
    def may_act(self) -> bool:
        """Whether this user may change something. A user without a name may not: each change is
        logged with the name."""
        return bool(self.name) and Role.OPERATOR in self.roles


VIEWER: Final = User()
"""The user of every request where no log-in is configured."""
