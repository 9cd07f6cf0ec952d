"""PLAIN (RFC 4616), both sides: the name and the password as they are. Only safe inside TLS.

::

    [authorization id] NUL user NUL password
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tallymark.net.sasl.mechanisms import SaslError

_MAX_TOKEN: Final = 4096


class PlainServer:
    """``check(user, password)`` returns whether the password is right; it hashes, so it takes
    milliseconds. A caller that must not block passes None, and calls :meth:`read` and
    :meth:`decide` in place of :meth:`respond`."""

    expires = None
    slow = True

    def __init__(self, check: Callable[[str, str], bool] | None = None) -> None:
        self._check = check
        self._user: str | None = None

    @property
    def user(self) -> str | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        return self._user

    def respond(self, token: bytes) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        assert self._check is not None
        user, password = self.read(token)
        return self.decide(user, self._check(user, password))

    def read(self, token: bytes) -> tuple[str, str]:
        """User and password in the client's token. SaslError where it is malformed."""
        if self._user is not None or len(token) > _MAX_TOKEN:
            raise SaslError("a PLAIN message too many, or too long")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslError("a PLAIN message that is not UTF-8") from None
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise SaslError("the PLAIN message is malformed")
        authzid, user, password = parts
        if authzid not in ("", user):
            raise SaslError(f"{user!r} may not act as another user")
        return user, password

    def decide(self, user: str, fits: bool) -> bytes:
        """The answer to the token; ``fits``: the password is right. SaslError where it is wrong."""
        if not fits:
            raise SaslError(f"wrong name or password: {user!r}")
        self._user = user
        return b""


class PlainClient:
    """Sends the name and the password; that is the whole exchange."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        return None
