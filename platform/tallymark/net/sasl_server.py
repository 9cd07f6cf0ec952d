"""The order of steps in which one connection of a broker is authenticated. No I/O.

::

    START ── handshake ──► HANDSHAKEN ── token ──► (VERIFYING ──►) HANDSHAKEN ... ──► DONE
      ▲          │ mechanism not enabled               │ wrong
      └──────────┘ (the client may choose again)       └──► FAILED, the connection closes

SaslHandshake version 0 means that tokens follow as bare frames without a request around them
(KIP-43), from version 1 on they come in SaslAuthenticate requests (KIP-152).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from tallymark.net.sasl import SaslError, ServerExchange

MakeExchange = Callable[[], ServerExchange]


class SaslState(Enum):
    """See the module's text."""

    START = auto()
    HANDSHAKEN = auto()
    VERIFYING = auto()
    DONE = auto()
    FAILED = auto()


class SaslSession:
    """``mechanisms`` maps each one that is enabled to what makes an exchange of it."""

    def __init__(self, mechanisms: Mapping[str, MakeExchange]) -> None:
        self.state = SaslState.START
        self.mechanism = ""
        self._mechanisms = mechanisms
        self._exchange: ServerExchange | None = None

    @property
    def enabled(self) -> tuple[str, ...]:
        """The mechanisms to choose from."""
        return tuple(self._mechanisms)

    @property
    def user(self) -> str | None:
        """Who it is, once DONE."""
        return self._exchange.user if self._exchange and self.state is SaslState.DONE else None

    def handshake(self, mechanism: str) -> bool:
        """Whether the mechanism is enabled; if it is, its tokens come next. SaslError when this
        is not the time for a handshake."""
        if self.state is not SaslState.START:
            raise SaslError(f"a handshake while {self.state.name}")
        make = self._mechanisms.get(mechanism)
        if make is None:
            return False
        self._exchange, self.mechanism = make(), mechanism
        self.state = SaslState.HANDSHAKEN
        return True

    def begin_token(self) -> ServerExchange:
        """The exchange to give the next token to; the session is VERIFYING until :meth:`ended`.
        SaslError when no token is due now."""
        if self.state is not SaslState.HANDSHAKEN or self._exchange is None:
            raise SaslError(f"a token while {self.state.name}")
        self.state = SaslState.VERIFYING
        return self._exchange

    def ended(self, failed: bool) -> None:
        """The token is judged."""
        assert self._exchange is not None
        if failed:
            self.state = SaslState.FAILED
        else:
            proven = self._exchange.user is not None
            self.state = SaslState.DONE if proven else SaslState.HANDSHAKEN
