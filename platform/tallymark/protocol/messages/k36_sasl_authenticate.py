"""SaslAuthenticate (key 36): one token of the mechanism there, one back (KIP-152).

* v1 says for how long the login holds (KIP-368), v2 is flexible
"""

from __future__ import annotations

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Buffer, Bytes, Int16, Int64, Message, Request, String, f, wire


@wire
class SaslAuthenticateResponse(Message):
    """The broker's token."""

    api_key = ApiKey.SASL_AUTHENTICATE
    valid_versions = (0, 2)
    flexible_from = 2

    error_code: int = f(Int16, about="0, or SASL_AUTHENTICATION_FAILED.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    auth_bytes: Buffer = f(Bytes, about="Token of the mechanism, or empty.")
    session_lifetime_ms: int = f(
        Int64, since=1, about="After how long the client must log in again, 0 for never."
    )


@wire
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's token."""

    api_key = ApiKey.SASL_AUTHENTICATE
    valid_versions = (0, 2)
    flexible_from = 2

    auth_bytes: Buffer = f(Bytes, about="Token of the mechanism.")
