"""Opening a connection to a broker: dial, ask for its API versions, log in.

::

    dial ──► ApiVersions ──► SaslHandshake, SaslAuthenticate ──► ready
    TLS      api             sasl, with credentials only         the stage that a ConnectError names
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from tallymark.errors import TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client import connect_errors as refusals
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connection import MAX_RESPONSE_BYTES, ClientConnection
from tallymark.net.client.dialing import dial, resolved
from tallymark.net.client.versions import CLIENT_NAME, negotiate
from tallymark.net.sasl.mechanisms import SaslCredentials

CONNECT_TIMEOUT: Final = 10.0


async def connect(
    host: str,
    port: int,
    timeout: float = CONNECT_TIMEOUT,
    *,
    client_id: str | None = CLIENT_NAME,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    tls: ssl.SSLContext | None = None,
    sasl: SaslCredentials | None = None,
) -> BrokerConnection:
    """Open a connection, with ``tls`` if given, request the broker's API versions, and log in with
    ``sasl`` if given, all within ``timeout`` seconds.

    Raises ConnectError naming the address, the stage that failed and what to check;
    AuthenticationError where a retry cannot help.
    """
    address = Address(host, port)
    deadline = asyncio.get_running_loop().time() + timeout
    core = ClientConnection(client_id, max_response_bytes)
    connection = await dial(address, lambda: BrokerConnection(address, core), deadline, tls)
    stage = "api"
    try:
        async with asyncio.timeout_at(deadline):
            connection.served = await negotiate(connection.submit)
            if sasl is not None:
                stage = "sasl"
                await _log_in(connection, sasl)
    except (TallymarkError, TimeoutError) as error:
        refusal = (
            refusals.not_logged_in(str(address), error)
            if stage == "sasl"
            else refusals.unanswered(str(address), error, tls=tls is not None)
        )
        refusal.add("", resolved(address, [connection.peer_host]))
        await connection.close()
        raise refusal from error
    except BaseException:
        connection.abort()
        raise
    connection.doubt = "" if sasl is not None else refusals.NO_LOG_IN
    return connection


async def _log_in(connection: BrokerConnection, credentials: SaslCredentials) -> None:
    from tallymark.net.client.authentication import authenticate
    from tallymark.net.client.reauthentication import Reauthentication  # hashes, and their APIs

    lifetime = await authenticate(connection, credentials)
    connection.renewal = Reauthentication(connection, credentials)
    connection.renewal.holds_for(lifetime)
