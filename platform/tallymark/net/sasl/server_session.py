"""The order of steps in which one connection of a broker is authenticated. No I/O.

::

    START ── handshake ──► HANDSHAKEN ── token ──► (VERIFYING ──►) HANDSHAKEN ... ──► DONE
      ▲          │ mechanism not enabled    ▲          │ wrong                         │
      └──────────┘ (the client may choose   │          └──► FAILED, the connection     │
                    again)                  │               closes                     │
                                            └──── handshake: the client logs in again ─┘

Re-authentication (KIP-368) renews the session of an open connection, by the same mechanism and as
the same user, at least a second after the last log-in. Until it has succeeded the connection keeps
its user, and requests are served.

SaslHandshake version 0 means that tokens follow as bare frames without a request around them
(KIP-43), from version 1 on they come in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final

from tallymark.net.sasl.mechanisms import SaslError, ServerExchange

MakeExchange = Callable[[], ServerExchange]
AGAIN_SECONDS: Final = 1.0
"""Least time between two log-ins on a connection, as in Apache Kafka, so that a client cannot keep
a broker busy with log-ins."""


class SaslState(Enum):
    """See the module's docstring."""

    START = auto()
    HANDSHAKEN = auto()
    VERIFYING = auto()
    DONE = auto()
    FAILED = auto()


class SaslSession:
    """``mechanisms`` maps each enabled mechanism to a function that makes an exchange."""

    def __init__(self, mechanisms: Mapping[str, MakeExchange]) -> None:
        self.state = SaslState.START
        self.mechanism = ""
        self.user: str | None = None
        """The user; None until the first log-in has succeeded."""
        self.asked = 0
        """Requests that came before the first log-in succeeded."""
        self._mechanisms = mechanisms
        self._exchange: ServerExchange | None = None
        self._proven_at = 0.0

    @property
    def enabled(self) -> tuple[str, ...]:
        """The enabled mechanisms."""
        return tuple(self._mechanisms)

    def handshake(self, mechanism: str, now: float = 0.0) -> bool:
        """Begin a log-in. Returns whether the mechanism is enabled; if it is, its tokens come next.
        SaslError when no handshake is allowed now. ``now``: seconds of a monotonic clock."""
        again = self.state is SaslState.DONE
        if not (again or self.state is SaslState.START):
            raise SaslError(f"a handshake while {self.state.name}")
        if again and (mechanism != self.mechanism or now - self._proven_at < AGAIN_SECONDS):
            raise SaslError("logging in again by another mechanism, or too soon")
        make = self._mechanisms.get(mechanism)
        if make is None:
            return False
        self._exchange, self.mechanism = make(), mechanism
        self.state = SaslState.HANDSHAKEN
        return True

    def begin_token(self) -> ServerExchange:
        """The exchange for the next token; the session is VERIFYING until :meth:`ended`. SaslError
        when no token is due now."""
        if self.state is not SaslState.HANDSHAKEN or self._exchange is None:
            raise SaslError(f"a token while {self.state.name}")
        self.state = SaslState.VERIFYING
        return self._exchange

    def ended(self, failed: bool, now: float = 0.0) -> None:
        """The token was checked. Where it is right but names another user than that of the
        connection, the log-in fails with SaslError."""
        assert self._exchange is not None
        user = self._exchange.user
        if failed:
            self.state = SaslState.FAILED
        elif user is None:
            self.state = SaslState.HANDSHAKEN
        elif self.user is not None and user != self.user:
            self.state = SaslState.FAILED
            raise SaslError(f"{self.user!r} logged in again as {user!r}")
        else:
            self.state, self.user, self._proven_at = SaslState.DONE, user, now
