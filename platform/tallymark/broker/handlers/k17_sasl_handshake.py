"""k17 SaslHandshake: which mechanism the client will log in with.

Served 0-1.

* v0 tokens follow as bare frames, size and bytes, without a request around them (KIP-43)
* v1 tokens follow in SaslAuthenticate requests (KIP-152)

Kept: after a mechanism that is not enabled the client may propose another one. After the log-in it
may log in again (KIP-368), with v1, by the same mechanism, a second later or more. On a listener
without SASL, and whenever it is not the time for it, the answer is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

import asyncio

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.net.sasl.mechanisms import SaslError
from tallymark.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse


def handle(state: BrokerState, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """Begin an exchange of the mechanism."""
    session = call.connection.sasl
    if session is None:
        return SaslHandshakeResponse(error_code=CODES["ILLEGAL_SASL_STATE"])
    try:
        if call.version == 0 and session.user is not None:
            raise SaslError("logging in again takes SaslAuthenticate")
        known = session.handshake(request.mechanism, asyncio.get_running_loop().time())
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
