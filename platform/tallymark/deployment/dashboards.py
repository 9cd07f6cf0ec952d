"""The shape of the dashboards' settings: where they listen, who may look and act."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from tallymark.deployment.parts import LOOPBACK, Part, Port
from tallymark.deployment.places import PATH_PREFIX

_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_OF_HTTP: Final = frozenset(
    ("authorization", "connection", "content-length", "content-type", "cookie", "host", "origin")
)
_OF_ADDRESSES: Final = frozenset(("x-forwarded-host", "x-forwarded-prefix", "x-forwarded-proto"))
_MASK: Final = re.compile(r"(?:[A-Za-z0-9._*-]+:)?[A-Za-z_*][A-Za-z0-9_*]*(?:\.[A-Za-z0-9_*]+)*")
_USER: Final = re.compile(r"[^\s,][^,]{0,254}")


class DashboardRoles(Part):
    """Which users that have logged in may do what: their names, ``group:NAME`` for those
    whom the proxy puts into that group or role, ``*`` for all of them. Where no log-in is
    configured everyone may look and change nothing."""

    viewer: tuple[str, ...] = ("*",)
    """They may look at every page, and read the API."""
    operator: tuple[str, ...] = ()
    """They may also accept windows, retire reporters, pause alerts and repair, where ``actions`` is
    on."""

    @field_validator("viewer", "operator")
    @classmethod
    def _names_can_be_names(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if not _USER.fullmatch(name) or not name.isprintable() or name == "group:":
                raise ValueError(f"{name!r} is neither a user nor group:NAME")
        return given


class ProxyLogin(Part):
    """A proxy in front of the dashboards. It says by headers which address the browser asked
    (``X-Forwarded-Proto``, ``X-Forwarded-Host``, ``X-Forwarded-Prefix``) and, where it lets people
    log in (OpenID Connect), who asks. It has to replace these headers where a client sends them."""

    trusted_peers: tuple[str, ...] = ()
    """Addresses and networks (``10.0.3.7``, ``10.0.4.0/24``) whose headers are believed; those of
    other peers are ignored. Empty: there is no such proxy."""
    user_header: str = "X-Forwarded-User"
    """The header that names the user; empty: people do not log in at the proxy."""
    groups_header: str = "X-Forwarded-Groups"
    """The header that lists groups or roles, with commas between them."""

    @field_validator("trusted_peers")
    @classmethod
    def _peers_can_be_read(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for peer in given:
            if ipaddress.ip_network(peer).prefixlen == 0:
                raise ValueError(f"{peer} is everyone: any client could name any user")
        return given

    @model_validator(mode="after")
    def _headers_can_be_headers(self) -> Self:
        for name in (self.user_header, self.groups_header):
            if name and (not _HEADER.fullmatch(name) or name.lower() in _OF_HTTP | _OF_ADDRESSES):
                raise ValueError(f"{name!r} cannot be the name of such a header")
        if name and self.user_header.lower() == self.groups_header.lower():
            raise ValueError("user_header and groups_header are the same")
        return self

    @property
    def logs_in(self) -> bool:
        """Whether the proxy says who asks."""
        return bool(self.trusted_peers and self.user_header)


class DashboardSettings(Part):
    """The audit dashboards."""

    host: str = LOOPBACK
    """Where they listen."""
    port: Port = 8080
    """Their port."""
    advertised_host: str = ""
    """What people and links in alerts use; empty: the same as ``host``."""
    embedded: bool = True
    """Whether ``tallymark up`` starts them."""
    allow_plaintext: bool = False
    """Whether other machines may reach them without TLS or without a log-in."""
    path_prefix: str = ""
    """Below which path a proxy serves them, as in ``/audit``: every link begins with it. The proxy
    may pass the prefix on or remove it; one of ``trusted_peers`` may name another one by
    ``X-Forwarded-Prefix``."""
    actions: bool = False
    """Whether operators may change something by these pages; else all of them only show."""
    masked_fields: tuple[str, ...] = ()
    """Fields of message values that are never shown: ``email``, ``user.phone``, or of the topics
    that a pattern matches ``orders-*:card.number``. ``*`` stands for any characters; a name without
    dots hides the field wherever it is in the value."""
    snapshot_ms: Annotated[int, Field(ge=1000, le=3_600_000)] = 10_000
    """So often the state of clusters, groups and the registry is read in the background."""
    roles: DashboardRoles = DashboardRoles()
    """The users who may look, and those who may act."""
    proxy: ProxyLogin = ProxyLogin()
    """A proxy whose headers are believed."""
    _scheme: str = PrivateAttr("http")

    @field_validator("path_prefix")
    @classmethod
    def _prefix_is_a_path(cls, given: str) -> str:
        if given and not PATH_PREFIX.fullmatch(given):
            raise ValueError(f"{given!r} is no path such as /audit, without a / at its end")
        return given

    @field_validator("masked_fields")
    @classmethod
    def _fields_can_be_fields(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if not _MASK.fullmatch(name):
                raise ValueError(f"{name!r} is no field such as email, user.phone, orders-*:card")
        return given

    @property
    def url(self) -> str:
        """Where they answer, also without a proxy in front."""
        name = self.advertised_host or self.host
        return f"{self._scheme}://{name}:{self.port}{self.path_prefix}"

    def secured(self) -> None:
        """They speak TLS, as ``[security]`` says."""
        self._scheme = "https"
