"""OAUTHBEARER (RFC 7628, KIP-255), both sides, without I/O: a token names the user.

::

    client  n,[a=authorization id],^Aauth=Bearer TOKEN^A[name=value^A ...]^A
    server  (nothing)                                     the log-in succeeds
    server  {"status":"invalid_token"}                    it fails; the client answers ^A, and
                                                          then the server sends the reason

^A is the byte 1. Extensions (KIP-342) are checked for their form and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from tallymark.net.sasl.mechanisms import SaslError

MAX_TOKEN: Final = 16 * 1024
"""Largest size of the whole first message in bytes: a larger one is refused before it is parsed."""

_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb]earer +(?P<token>[A-Za-z0-9\-._~+/]+=*)\s*")
_REFUSAL: Final = b'{"status":"invalid_token"}'


class Bearer(NamedTuple):
    """The user that a token names, and when it expires (seconds since 1970, UTC)."""

    user: str
    expires: float


class OAuthServer:
    """``check(token)`` returns the token's user, or raises SaslError; it computes for less than a
    millisecond and does no I/O."""

    slow = False

    def __init__(self, check: Callable[[str], Bearer]) -> None:
        self._check = check
        self._bearer: Bearer | None = None
        self._refused: SaslError | None = None

    @property
    def user(self) -> str | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        return self._bearer.user if self._bearer else None

    @property
    def expires(self) -> float | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        return self._bearer.expires if self._bearer else None

    def respond(self, token: bytes) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ServerExchange`."""
        if self._refused is not None:
            raise self._refused
        if self._bearer is not None:
            raise SaslError("a token came after the last one")
        authzid, bearer = _parts(token)
        try:
            found = self._check(bearer)
            if authzid not in ("", found.user):
                raise SaslError(f"{found.user!r} may not act as another user")
        except SaslError as error:
            self._refused = error
            return _REFUSAL
        self._bearer = found
        return b""


class OAuthClient:
    """Sends its token; that is the whole exchange."""

    def __init__(self, token: str) -> None:
        if _BEARER.fullmatch(f"Bearer {token}") is None:
            raise SaslError("what is given as a token is none (RFC 6750, section 2.1)")
        self._token = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """See :class:`~tallymark.net.sasl.mechanisms.ClientExchange`."""
        return b"\x01" if token else None


def bearer_of(token: bytes) -> str | None:
    """The bearer token in a client's first message; None where the message is malformed."""
    try:
        return _parts(token)[1]
    except SaslError:
        return None


def _parts(token: bytes) -> tuple[str, str]:
    """Authorization id and bearer token of a client's first message."""
    if len(token) > MAX_TOKEN:
        raise SaslError(f"an OAUTHBEARER message of {len(token)} bytes, {MAX_TOKEN} are possible")
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise SaslError("an OAUTHBEARER message that is not UTF-8") from None
    found = _FIRST.fullmatch(text)
    if found is None:
        raise SaslError("the OAUTHBEARER message is malformed")
    pairs = [pair.partition("=") for pair in found["pairs"].split("\x01") if pair]
    given = [value for name, _, value in pairs if name == "auth"]
    bearer = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if bearer is None:
        raise SaslError("the OAUTHBEARER message has no bearer token")
    authzid = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return authzid, bearer["token"]
