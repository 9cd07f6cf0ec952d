"""k36 SaslAuthenticate: one token of the log-in, answered with the next one.

Served 0-2.

* v1 for how long the session is valid (KIP-368): as long as the token, and
  ``connections.max.reauth.ms`` at most; 0 means that it never ends
* v2 flexible

Kept: a log-in that fails is answered after ``connection.failed.authentication.delay.ms``, and the
connection closes; the answer is the same for a wrong name, a wrong password and a broken token.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.net.sasl.mechanisms import SaslError
from tallymark.net.sasl.server_session import SaslState
from tallymark.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(
    state: BrokerState, request: SaslAuthenticateRequest, call: Call
) -> SaslAuthenticateResponse:
    """Give the token to the connection's exchange."""
    session = call.connection.sasl
    if session is None or session.state is not SaslState.HANDSHAKEN:
        return SaslAuthenticateResponse(
            error_code=CODES["ILLEGAL_SASL_STATE"],
            error_message="a SaslHandshake comes first, on a SASL listener, and once",
        )
    assert state.logins is not None
    try:
        reply, lifetime_ms = await state.logins.take(call.connection, bytes(request.auth_bytes))
    except SaslError:
        return SaslAuthenticateResponse(
            error_code=CODES["SASL_AUTHENTICATION_FAILED"],
            error_message=f"Authentication failed: invalid credentials ({session.mechanism})",
        )
    return SaslAuthenticateResponse(auth_bytes=reply, session_lifetime_ms=lifetime_ms)


register(SaslAuthenticateRequest, handle)
