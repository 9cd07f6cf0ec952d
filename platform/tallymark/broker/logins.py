"""Log-ins: which mechanisms check which users, and what a client that fails gets to feel."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from typing import Final

from tallymark.broker.config_types import split
from tallymark.broker.security import Security
from tallymark.broker.settings import BrokerSettings
from tallymark.net import ServerConnection
from tallymark.net.rate_limit import RateLimit
from tallymark.net.sasl import PLAIN, SaslError
from tallymark.net.sasl_plain import PlainServer
from tallymark.net.sasl_server import MakeExchange, SaslSession
from tallymark.net.scram import ScramServer

log: Final = logging.getLogger("tallymark.logins")


class Logins:
    """The SASL sessions of a broker's connections."""

    def __init__(self, settings: BrokerSettings, security: Security) -> None:
        self.mechanisms = split(settings.sasl_enabled_mechanisms)
        self.counts: Counter[str] = Counter()
        """How many log-ins ``succeeded`` and ``failed``."""
        self._delay = settings.connection_failed_authentication_delay_ms / 1000
        self._frame_bytes = settings.socket_request_max_bytes
        self._security = security
        self._limit = RateLimit()

    def session(self) -> SaslSession:
        """For a new connection."""
        return SaslSession({name: self._maker(name) for name in self.mechanisms})

    async def take(self, connection: ServerConnection, token: bytes) -> bytes:
        """Give a token to the connection's session; the answer is the token to send back.

        SaslError after a log-in that failed, with the delay that the settings ask for; the
        connection then closes as soon as it is answered.
        """
        session = connection.sasl
        assert session is not None
        exchange = session.begin_token()
        try:
            if exchange.slow:
                reply = await asyncio.to_thread(exchange.respond, token)
            else:
                reply = exchange.respond(token)
        except SaslError as error:
            session.ended(failed=True)
            self._failed(connection, session.mechanism, error)
            await asyncio.sleep(self._delay)
            connection.finish()
            raise
        session.ended(failed=False)
        if session.user is not None:
            connection.principal = f"User:{session.user}"
            connection.allow_frames(self._frame_bytes)
            self.counts["succeeded"] += 1
        return reply

    def _maker(self, mechanism: str) -> MakeExchange:
        if mechanism == PLAIN:
            return lambda: PlainServer(
                lambda user, password: self._security.users.fits(user, password)
            )
        return lambda: ScramServer(
            mechanism,
            lambda user: self._security.users.credential(user, mechanism),
            secrets.token_urlsafe(24),
        )

    def _failed(self, connection: ServerConnection, mechanism: str, error: SaslError) -> None:
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
