"""SASL (RFC 4422), shared by both sides: names of mechanisms, errors, credentials, an exchange.

The files: :mod:`.scram` (SCRAM-SHA-256 and -512), :mod:`.plain` (PLAIN) and
:mod:`.oauthbearer` (OAUTHBEARER) hold both sides of a mechanism, without I/O;
:mod:`.server_session` is the order of steps on a broker's connection,
:mod:`tallymark.net.client.authentication` that on a client's, and
:mod:`tallymark.net.client.reauthentication` repeats it while the connection is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tallymark.errors import TallymarkError

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512)
"""The mechanisms with a user name and a password."""
OAUTHBEARER: Final = "OAUTHBEARER"
ALL_MECHANISMS: Final = (*MECHANISMS, OAUTHBEARER)
"""All mechanisms that a broker can enable."""


class SaslError(TallymarkError):
    """The exchange has failed: wrong credentials, or bytes that are no token of the mechanism.
    Its text is for our own log; it may name the user, never a secret."""


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """A client's credentials: a user name and password, or tokens."""

    username: str
    password: str = field(repr=False)
    mechanism: str = SCRAM_SHA_256
    """One of :data:`ALL_MECHANISMS`. PLAIN sends the password itself to the broker, OAUTHBEARER the
    token: use both only over TLS."""
    token: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    """For OAUTHBEARER: returns a token that is valid now. May raise AuthenticationError or
    ConnectError."""

    def __post_init__(self) -> None:
        if self.mechanism not in ALL_MECHANISMS:
            raise ValueError(f"no such mechanism: {self.mechanism} (there are {ALL_MECHANISMS})")
        if (self.mechanism == OAUTHBEARER) != (self.token is not None):
            raise ValueError("tokens are for OAUTHBEARER, and it needs them")


class ServerExchange(Protocol):
    """One log-in as the server sees it."""

    slow: bool
    """Whether :meth:`respond` computes for milliseconds, and so must run in a thread."""

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's next token. SaslError ends the exchange."""
        ...

    @property
    def user(self) -> str | None:
        """The user, once authenticated; None before."""
        ...

    @property
    def expires(self) -> float | None:
        """When the authentication expires, in seconds since 1970 (UTC); None: never."""
        ...


class ClientExchange(Protocol):
    """One log-in as the client sees it."""

    def first(self) -> bytes:
        """The first token."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """The answer to the server's token; None when nothing more is to be sent. SaslError when
        the server does not prove its identity, or breaks the rules."""
        ...
