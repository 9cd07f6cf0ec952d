"""Logging in on a connection to a broker: SaslHandshake, then tokens in SaslAuthenticate."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from tallymark.errors import CODES, KafkaError
from tallymark.net.sasl.mechanisms import PLAIN, ClientExchange, SaslCredentials, SaslError
from tallymark.net.sasl.oauthbearer import OAuthClient
from tallymark.net.sasl.plain import PlainClient
from tallymark.net.sasl.scram import ScramClient
from tallymark.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

_MOST_STEPS: Final = 4


class Requester(Protocol):
    """A connection that requests can be sent on."""

    def submit(self, message: Request[R], /) -> Awaitable[R]: ...


async def authenticate(connection: Requester, credentials: SaslCredentials) -> float:
    """Log in, or log in again on an open connection (KIP-368). Returns for how many seconds the
    session is valid; 0: for ever. KafkaError with the broker's error (SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM), SaslError when the broker does not prove its identity."""
    chosen = credentials.mechanism
    # Before anything is sent: a token may take seconds, and the broker would not wait so long.
    exchange = await _exchange(credentials)
    shaken = await connection.submit(SaslHandshakeRequest(mechanism=chosen))
    if shaken.error_code:
        offered = ", ".join(shaken.mechanisms)
        raise KafkaError(shaken.error_code, f"{chosen}; the broker offers {offered or 'nothing'}")
    token = exchange.first()
    for _ in range(_MOST_STEPS):
        answer = await connection.submit(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            why = answer.error_message or ""
            raise KafkaError(
                answer.error_code, f"{credentials.username} by {chosen}: {why}".strip()
            )
        next_token = exchange.respond(bytes(answer.auth_bytes))
        if next_token is None:
            return answer.session_lifetime_ms / 1000
        token = next_token
    raise KafkaError(CODES["ILLEGAL_SASL_STATE"], f"{chosen} does not come to an end")


async def _exchange(credentials: SaslCredentials) -> ClientExchange:
    if credentials.token is not None:
        return OAuthClient(await credentials.token())
    if credentials.mechanism == PLAIN:
        return PlainClient(credentials.username, credentials.password)
    return ScramClient(
        credentials.mechanism,
        credentials.username,
        credentials.password,
        secrets.token_urlsafe(24),
    )


__all__ = ["SaslError", "authenticate"]
