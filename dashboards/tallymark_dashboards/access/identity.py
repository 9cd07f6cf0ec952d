"""The user of a request, from the headers of a trusted proxy, and the user's roles. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark.deployment.dashboards import DashboardRoles, ProxyLogin
from tallymark.net.web.access import PEER
from tallymark_dashboards.access.user import Role, User

GROUP: Final = "group:"
EVERYONE: Final = "*"
LONGEST_NAME: Final = 250
MOST_GROUPS: Final = 500

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Identity:
    """A user's name and groups; ``wrong``: why a proxy's headers name no user."""

    name: str = ""
    groups: frozenset[str] = frozenset()
    wrong: str = ""


class TrustedProxy:
    """Reads the headers of the proxy that the settings trust."""

    def __init__(self, settings: ProxyLogin) -> None:
        self._networks = [ipaddress.ip_network(peer) for peer in settings.trusted_peers]
        self._user = settings.user_header.lower().encode()
        self._groups = settings.groups_header.lower().encode()

    def trusts(self, peer: str) -> bool:
        """Whether ``peer``, the address at the other end of the connection, may say who asks. It is
        never an address that a header gives."""
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)

    def identity(self, headers: Headers) -> Identity | None:
        """The user named by the headers of a trusted proxy; None: none, as for a health check."""
        if not self._user:
            return None
        users = [value for name, value in headers if name.lower() == self._user]
        groups = [value for name, value in headers if name.lower() == self._groups]
        if not users or users == [b""]:
            return None
        if len(users) > 1 or len(groups) > 1:
            return Identity(wrong="the proxy passed a header on that the client had sent, too")
        name = _text(users[0])
        if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            return Identity(wrong="the proxy named a user whose name cannot be read")
        given = _text(groups[0]).split(",", MOST_GROUPS) if groups else []
        found = frozenset(one.strip() for one in given[:MOST_GROUPS] if one.strip())
        return Identity(name, found)

    def without(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """The headers without those that only a trusted proxy may send."""
        ours = (self._user, self._groups)
        return [(name, value) for name, value in headers if name.lower() not in ours]


def peer_of(scope: Mapping[str, Any]) -> str:
    """The address at the other end of the connection, which no header changes; "?": not known."""
    return address_of(scope.get(PEER, scope.get("client")))


def address_of(client: Any) -> str:
    """The address of a client of an ASGI scope."""
    return str(client[0]) if client else "?"


def user_with_roles(identity: Identity, roles: DashboardRoles) -> User:
    """The user, with the roles that the settings give to the name or to one of the groups."""
    given = {
        role
        for role, names in ((Role.VIEWER, roles.viewer), (Role.OPERATOR, roles.operator))
        if _is_among(identity, names)
    }
    return User.of(identity.name, given)


def _is_among(identity: Identity, names: Iterable[str]) -> bool:
    for name in names:
        if name == EVERYONE:
            return True
        # A user may be called "group:x", and is no member of x by that.
        if name.startswith(GROUP):
            if name.removeprefix(GROUP) in identity.groups:
                return True
        elif name == identity.name:
            return True
    return False


def _text(value: bytes) -> str:
    try:
        return value.decode().strip()
    except UnicodeDecodeError:
        return value.decode("latin-1").strip()
