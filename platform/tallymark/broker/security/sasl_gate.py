"""The gate of SASL listeners: before the log-in only the requests of a log-in are served.

::

    request ─► logged in? ── yes ─► the broker's handler
                   └── no ──► ApiVersions, SaslHandshake, SaslAuthenticate: the broker's handler
                              a bare frame, after a handshake of version 0: a token
                              anything else: the connection is closed, as it is by more than
                              MAX_BEFORE of those

A connection whose session ends (KIP-368) before its client has logged in again is closed by
:class:`~tallymark.broker.security.sasl_logins.Logins`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from tallymark.broker.security.sasl_logins import Logins
from tallymark.errors import RemoteProtocolError
from tallymark.net.sasl.mechanisms import SaslError
from tallymark.net.sasl.server_session import SaslState
from tallymark.net.server.handler import BARE, Answer, Connection, Handler
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader

_BEFORE: Final = frozenset(
    {int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)}
)
MAX_BEFORE: Final = 32
"""Requests that a connection may make before its first log-in: clients make three to six."""
TOKENS: Final = frozenset({int(ApiKey.SASL_AUTHENTICATE), BARE.api_key})
"""Requests that are cancelled when their client disconnects: no client would read the answer, and
the answer to a failed log-in waits for seconds."""


class SaslGate:
    """A :class:`~tallymark.net.server.connection.Handler` before ``handler``."""

    def __init__(self, handler: Handler, logins: Logins) -> None:
        self._handler = handler
        self._logins = logins

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer | Awaitable[Answer]:
        """Handle or pass on a request. RemoteProtocolError, which closes the connection, for a
        request that is not allowed now."""
        session = connection.sasl
        if session is None:
            session = connection.sasl = self._logins.session()
        if session.user is None:
            session.asked += 1
            if session.asked > MAX_BEFORE:
                raise RemoteProtocolError(f"more than {MAX_BEFORE} requests before the log-in")
        if session.user is not None or header.api_key in _BEFORE:
            return self._handler(header, body, connection)
        if header is BARE:
            return self._bare(bytes(body), connection)
        raise RemoteProtocolError(f"API key {header.api_key} before the log-in is over")

    async def _bare(self, token: bytes, connection: Connection) -> Answer:
        try:
            reply, _ = await self._logins.take(connection, token)
        except SaslError as error:
            raise RemoteProtocolError(f"the log-in failed: {error}") from error
        connection.bare_frames = connection.sasl is not None and (
            connection.sasl.state is not SaslState.DONE
        )
        return len(reply).to_bytes(4, "big") + reply
