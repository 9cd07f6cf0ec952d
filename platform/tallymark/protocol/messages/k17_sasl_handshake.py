"""SaslHandshake (key 17): agree on the SASL mechanism of a connection.

* after v0 the tokens follow as bare frames, after v1 in SaslAuthenticate (KIP-152)
* it never became flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Array, Int16, Message, Request, String, f, wire


@wire
class SaslHandshakeResponse(Message):
    """Whether the mechanism will do."""

    api_key = ApiKey.SASL_HANDSHAKE
    valid_versions = (0, 1)
    flexible_from = 2

    error_code: int = f(Int16, about="0, or UNSUPPORTED_SASL_MECHANISM.")
    mechanisms: Sequence[str] = f(Array(String), about="The mechanisms there are.")


@wire
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Propose a mechanism."""

    api_key = ApiKey.SASL_HANDSHAKE
    valid_versions = (0, 1)
    flexible_from = 2

    mechanism: str = f(String, about='"PLAIN", "SCRAM-SHA-256", ...')
