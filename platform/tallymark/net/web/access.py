"""The security of one HTTP server, and a check that it is not opened to others by mistake."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tallymark.errors import UserError
from tallymark.net.addresses import is_loopback
from tallymark.net.web.access_log import App
from tallymark.net.web.guard import OwnNames, WebGuard
from tallymark.net.web.login import Attempt

log = logging.getLogger(__name__)

PEER: Final = "tallymark.peer"
"""Where an ASGI scope has host and port at the other end of the connection, which no header
changes."""
SCHEME: Final = "tallymark.scheme"
"""Where an ASGI scope has the scheme of the connection itself, http or https, which no header
changes."""


class LogIn(Protocol):
    """How clients log in: :class:`~.login.BasicLogin`, or what a server has instead."""

    async def check(self, authorization: bytes, host: str) -> Attempt:
        """Check one log-in: the header as received, and the address of the client."""
        ...

    def around(self, app: App) -> App:
        """``app`` for those who have logged in, and the refusal for the others."""
        ...


@dataclass(frozen=True)
class WebAccess:
    """``names``: host names that browsers may use; ``tls``: None means plain text; ``login``: None
    means that no log-in is required."""

    names: OwnNames = field(default_factory=OwnNames)
    tls: ssl.SSLContext | None = None
    login: LogIn | None = None

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return "http" if self.tls is None else "https"

    def around(self, app: App) -> App:
        """``app`` wrapped in the log-in and the guard."""
        inner = app if self.login is None else self.login.around(app)
        return WebGuard(inner, self.names)

    def known_as(self, names: Iterable[str]) -> WebAccess:
        """The same security, with ``names`` as host names."""
        return WebAccess(OwnNames(names), self.tls, self.login)


def check_exposed(what: str, host: str, access: WebAccess, allowed: bool, setting: str) -> None:
    """UserError where other machines can reach ``what`` without TLS or without a log-in, unless the
    owner has allowed that by ``setting``; then the log warns."""
    lacking = [
        name
        for name, there in (("TLS", access.tls is not None), ("log-in", access.login is not None))
        if not there
    ]
    if is_loopback(host) or not lacking:
        return
    without = " and ".join(lacking)
    if not allowed:
        raise UserError(
            f"{what} on {host or 'every address'} can be reached by other machines, without "
            f"{without}",
            f"give it both (docs/security.md), keep it on 127.0.0.1, or say {setting}",
        )
    log.warning("%s can be reached by other machines without %s host=%s", what, without, host)
