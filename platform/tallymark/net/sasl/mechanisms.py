"""SASL (RFC 4422): what both sides share: names of mechanisms, errors, credentials, an exchange.

The files: :mod:`.scram` (SCRAM-SHA-256 and -512), :mod:`.plain` (PLAIN) and
:mod:`.oauthbearer` (OAUTHBEARER) hold both sides of a mechanism, without I/O;
:mod:`.server_session` is the order of steps on a broker's connection,
:mod:`tallymark.net.client.authentication` on a client's,
:mod:`tallymark.net.client.reauthentication` how that goes on while it is open.
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
"""Those by name and password."""
OAUTHBEARER: Final = "OAUTHBEARER"
ALL_MECHANISMS: Final = (*MECHANISMS, OAUTHBEARER)
"""What can be enabled."""


class SaslError(TallymarkError):
    """The exchange has failed: wrong credentials, or bytes that are no token of the mechanism.
    Its text is for our own log; it names the user at most, never a secret."""


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """What a client logs in with: a name and its password, or tokens."""

    username: str
    password: str = field(repr=False)
    mechanism: str = SCRAM_SHA_256
    """One of :data:`ALL_MECHANISMS`. PLAIN shows the password to the broker, OAUTHBEARER the token:
    only over TLS."""
    token: Callable[[], Awaitable[str]] | None = field(default=None, repr=False)
    """For OAUTHBEARER: a token that is good now. May raise AuthenticationError or ConnectError."""

    def __post_init__(self) -> None:
        if self.mechanism not in ALL_MECHANISMS:
            raise ValueError(f"no such mechanism: {self.mechanism} (there are {ALL_MECHANISMS})")
        if (self.mechanism == OAUTHBEARER) != (self.token is not None):
            raise ValueError("tokens are for OAUTHBEARER, and it needs them")


class ServerExchange(Protocol):
    """One log-in as the server sees it."""

    slow: bool
    """Whether :meth:`respond` computes for milliseconds, so that it belongs into a thread."""

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's next token. SaslError ends the exchange."""
        ...

    @property
    def user(self) -> str | None:
        """The user, once it is proven; None before."""
        ...

    @property
    def expires(self) -> float | None:
        """Until when that holds, seconds since 1970 (UTC); None: for ever."""
        ...


class ClientExchange(Protocol):
    """One log-in as the client sees it."""

    def first(self) -> bytes:
        """The token that begins it."""
        ...

    def respond(self, token: bytes) -> bytes | None:
        """The answer to the server's token; None when nothing more is to be sent. SaslError when
        the server does not prove its identity, or breaks the rules."""
        ...
