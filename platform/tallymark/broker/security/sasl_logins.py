"""Log-ins: the mechanisms with the users that each checks, and the delay after a failed log-in."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from tallymark.broker.security.live import Security
from tallymark.broker.security.password_checks import PasswordChecks
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import split
from tallymark.errors import UserError
from tallymark.net.limits.failed_login_delay import FailedLoginDelay
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.sasl.mechanisms import OAUTHBEARER, PLAIN, SaslError, ServerExchange
from tallymark.net.sasl.oauthbearer import OAuthServer
from tallymark.net.sasl.plain import PlainServer
from tallymark.net.sasl.scram import ScramServer
from tallymark.net.sasl.server_session import MakeExchange, SaslSession
from tallymark.net.server.handler import Connection

if TYPE_CHECKING:
    from tallymark.broker.security.oauth_logins import OAuth

log: Final = logging.getLogger("tallymark.logins")

_LONGEST_SESSION: Final = 365 * 24 * 3600.0
_SHORTEST_SESSION: Final = 1.0
"""Seconds for a token that is accepted though it has expired (the clocks may differ): 0 would mean
for ever."""


class Logins:
    """The SASL sessions of a broker's connections. ``now``: seconds since 1970, UTC."""

    def __init__(
        self,
        settings: BrokerSettings,
        security: Security,
        now: Callable[[], float] = time.time,
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self.mechanisms = split(settings.sasl_enabled_mechanisms)
        self.counts: Counter[str] = Counter()
        """How many log-ins ``succeeded`` and ``failed``, and how often a client logged in
        ``again``."""
        self.passwords = PasswordChecks(lambda: security.users, threads)
        self._delay = settings.connection_failed_authentication_delay_ms / 1000
        self._frame_bytes = settings.socket_request_max_bytes
        self._max_session = settings.connections_max_reauth_ms / 1000
        self._security = security
        self._now = now
        self._limit = LogRate()
        self._pace = FailedLoginDelay()
        self._oauth: OAuth | None = None
        if OAUTHBEARER in self.mechanisms:
            self._oauth = _oauth(settings, now)

    async def start(self) -> None:
        """Read the keys that verify tokens, and read them again at intervals."""
        if self._oauth is not None:
            await self._oauth.start()

    async def stop(self) -> None:
        """Idempotent."""
        self.passwords.close()
        if self._oauth is not None:
            await self._oauth.stop()

    def session(self) -> SaslSession:
        """The SASL session of a new connection."""
        return SaslSession({name: self._maker(name) for name in self.mechanisms})

    async def take(self, connection: Connection, token: bytes) -> tuple[bytes, int]:
        """Give a token to the connection's session. Returns the token to send back, and for how
        many milliseconds the log-in is valid (0: for ever, or it is not complete); the connection
        is closed after that time, unless its client has logged in again.

        SaslError after a failed log-in, raised when the next refusal of that address is due, and no
        earlier than the settings require; the connection closes as soon as it is answered.
        """
        session = connection.sasl
        assert session is not None
        exchange = session.begin_token()
        loop = asyncio.get_running_loop()
        began, known = loop.time(), session.user
        due = max(began + self._delay, self._pace.come(connection.host, began))
        try:
            reply = await self._respond(exchange, token, connection)
            session.ended(failed=False, now=loop.time())
        except asyncio.CancelledError:
            # A success is answered at once; only refusals wait.
            self._failed(connection, session.mechanism, SaslError("its client did not wait"))
            raise
        except SaslError as error:
            session.ended(failed=True)
            self._failed(connection, session.mechanism, error)
            await asyncio.sleep(due - loop.time())
            connection.finish()
            raise
        self._pace.let_in(connection.host, loop.time())
        if exchange.user is None:
            return reply, 0
        connection.principal = f"User:{exchange.user}"
        connection.allow_frames(self._frame_bytes)
        self.counts["succeeded" if known is None else "again"] += 1
        lifetime = self._lifetime(exchange)
        connection.end_in(lifetime)
        return reply, round((lifetime or 0) * 1000)

    async def _respond(
        self, exchange: ServerExchange, token: bytes, connection: Connection
    ) -> bytes:
        if isinstance(exchange, PlainServer):
            user, password = exchange.read(token)
            fits = await self.passwords.fits(
                connection.host, user, password, lambda: not connection.closed
            )
            return exchange.decide(user, fits)
        if self._oauth is not None and isinstance(exchange, OAuthServer):
            await self._oauth.ready(token)
        return exchange.respond(token)

    def _lifetime(self, exchange: ServerExchange) -> float | None:
        """Seconds; None: for ever."""
        ends = [self._max_session] if self._max_session else []
        if exchange.expires is not None:
            ends.append(max(_SHORTEST_SESSION, exchange.expires - self._now()))
        return min(*ends, _LONGEST_SESSION) if ends else None

    def _maker(self, mechanism: str) -> MakeExchange:
        if mechanism == PLAIN:
            return PlainServer
        if mechanism == OAUTHBEARER:
            assert self._oauth is not None
            return self._oauth.exchange
        return lambda: ScramServer(
            mechanism,
            lambda user: self._security.users.credential(user, mechanism),
            secrets.token_urlsafe(24),
        )

    def _failed(self, connection: Connection, mechanism: str, error: SaslError) -> None:
        self.counts["failed"] += 1
        held = self._limit.passes(connection.host)
        if held is not None:
            log.warning(
                "log-in failed peer=%s listener=%s mechanism=%s repeated=%d: %s",
                connection.peer,
                connection.listener,
                mechanism,
                held,
                error,
            )


def _oauth(settings: BrokerSettings, now: Callable[[], float]) -> OAuth:
    try:
        from tallymark.broker.security.oauth_logins import (
            OAuth,  # needs an extra with cryptography
        )
    except ImportError as error:
        raise UserError(
            "OAUTHBEARER comes with the extra 'oauth', which is not installed",
            "pip install 'tallymark[oauth]'",
        ) from error
    return OAuth(settings, now)
