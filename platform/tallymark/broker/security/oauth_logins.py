"""Log-ins by token: joins settings, keys and rules. Needs the extra ``oauth``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import split
from tallymark.net.sasl.oauth_keys import OAuthKeys
from tallymark.net.sasl.oauth_tokens import TokenRules, header_of, kid_of
from tallymark.net.sasl.oauthbearer import OAuthServer, bearer_of

log: Final = logging.getLogger("tallymark.logins")


class OAuth:
    """Checks tokens by the broker's settings. ``now``: seconds since 1970, UTC."""

    def __init__(self, settings: BrokerSettings, now: Callable[[], float]) -> None:
        self._now = now
        self.keys = OAuthKeys(
            settings.sasl_oauthbearer_jwks_endpoint_url,
            settings.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000,
        )
        self._rules = TokenRules(
            audiences=split(settings.sasl_oauthbearer_expected_audience),
            issuer=settings.sasl_oauthbearer_expected_issuer,
            user_claim=settings.sasl_oauthbearer_sub_claim_name,
            scope_claim=settings.sasl_oauthbearer_scope_claim_name,
            required_scope=settings.sasl_oauthbearer_required_scope,
            skew=settings.sasl_oauthbearer_clock_skew_seconds,
        )
        if not self._rules.audiences:
            log.warning(
                "sasl.oauthbearer.expected.audience is not set: "
                "whoever has any token of this issuer can log in"
            )

    async def start(self) -> None:
        """Read the keys, and read them again at intervals."""
        await self.keys.start()

    async def stop(self) -> None:
        """Idempotent."""
        await self.keys.stop()

    async def ready(self, message: bytes) -> None:
        """Return when the key for a client's first message is known, or cannot be fetched now."""
        token = bearer_of(message)
        if token is None:
            return
        try:
            kid = kid_of(header_of(token))
        except ValueError:
            return
        await self.keys.ready(kid)

    def exchange(self) -> OAuthServer:
        """The exchange for one log-in."""
        return OAuthServer(lambda token: self._rules.bearer(token, self.keys.keys, self._now()))
