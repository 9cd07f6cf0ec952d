"""k17 SaslHandshake: which mechanism the client will log in with.

Served 0-1.

* v0 tokens follow as bare frames, size and bytes, without a request around them (KIP-43)
* v1 tokens follow in SaslAuthenticate requests (KIP-152)

Kept: after a mechanism that is not enabled the client may propose another one. On a listener
without SASL, and after the log-in, the answer is ILLEGAL_SASL_STATE. Simplified: a session never
ends, so there is no logging in again (KIP-368).
"""

from __future__ import annotations

from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.net.sasl import SaslError
from tallymark.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse


def handle(state: BrokerState, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Begin an exchange of the mechanism."""
    session = call.connection.sasl
    if session is None:
        return SaslHandshakeResponse(error_code=CODES["ILLEGAL_SASL_STATE"])
    try:
        known = session.handshake(request.mechanism)
    except SaslError:
        return SaslHandshakeResponse(
            error_code=CODES["ILLEGAL_SASL_STATE"], mechanisms=session.enabled
        )
    if not known:
        return SaslHandshakeResponse(
            error_code=CODES["UNSUPPORTED_SASL_MECHANISM"], mechanisms=session.enabled
        )
    call.connection.bare_frames = call.version == 0
    return SaslHandshakeResponse(mechanisms=session.enabled)


register(SaslHandshakeRequest, handle)
