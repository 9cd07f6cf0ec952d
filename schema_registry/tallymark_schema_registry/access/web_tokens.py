"""JSON Web Tokens of an issuer (OpenID Connect) as log-ins: the user and its roles.

The public keys come from a configured address or file, when the server starts and at intervals;
nothing that a client sends makes the server fetch anything. A claim of the token lists roles; those
that the file of accounts defines give their grants, other names give nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from tallymark.deployment import RegistryTokens
from tallymark.errors import UserError
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.sasl.mechanisms import SaslError
from tallymark.net.sasl.oauth_keys import OAuthKeys
from tallymark.net.sasl.oauth_tokens import TokenRules
from tallymark.net.sasl.oauth_urls import check_oauth_url

log = logging.getLogger(__name__)

MOST_ROLES: Final = 1_000


class WebTokenRules:
    """Checks tokens by the settings ``[registry.tokens]``. Belongs to one event loop. UserError
    where a setting is wrong."""

    def __init__(self, settings: RegistryTokens) -> None:
        try:
            check_oauth_url(settings.jwks)
        except ValueError as error:
            raise UserError(f"jwks of [registry.tokens]: {error}") from None
        if not settings.audience:
            log.warning(
                "audience of [registry.tokens] is not set: every token of this issuer is a log-in"
            )
        self._settings = settings
        self._rules = TokenRules(
            audiences=settings.audience,
            issuer=settings.issuer,
            user_claim=settings.user_claim,
            skew=settings.leeway_s,
        )
        self._keys: OAuthKeys | None = None
        self._starting: asyncio.Task[None] | None = None
        self._log_rate = LogRate()

    def start(self) -> None:
        """Read the keys, and again at intervals; no request waits for them."""
        self._keys = OAuthKeys(self._settings.jwks, self._settings.refresh_s)
        self._starting = asyncio.create_task(self._keys.start())

    async def stop(self) -> None:
        """Read no more."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._keys is not None:
            await self._keys.stop()

    def check(self, token: bytes, now: float) -> tuple[str, float, frozenset[str]] | None:
        """The user, when the token ends (seconds since 1970), and the roles that it names; None
        where it is not good, for a reason that is logged. Takes less than a millisecond."""
        if self._keys is None:
            return None
        try:
            bearer, claims = self._rules.with_claims(token.decode(), self._keys.keys, now)
        except (SaslError, UnicodeDecodeError) as error:
            held_back = self._log_rate.passes("token")
            if held_back is not None:
                log.warning("token refused: %s held_back=%d", error, held_back)
            return None
        ends = bearer.expires + self._settings.leeway_s
        return bearer.user, ends, roles_in(claims, self._settings.roles_claim)


def roles_in(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """The names at ``path``, whose parts are divided by dots (``realm_access.roles``): a list, or
    words of a text."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        found = found.split()
    if not isinstance(found, list):
        return frozenset()
    return frozenset(each for each in found[:MOST_ROLES] if isinstance(each, str))
