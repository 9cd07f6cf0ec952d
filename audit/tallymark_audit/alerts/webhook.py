"""Post to the webhook. Whatever it does, it has :data:`SECONDS` in all, and what it answers is not
read beyond the status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from tallymark.errors import UserError

SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a post was not accepted. The text does not have the address, which may hold a secret."""

    reason: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where alerts go. ``seconds``: how long one post may take."""

    url: str = field(repr=False)
    seconds: float = SECONDS

    @classmethod
    def of(cls, url: str) -> Webhook:
        """UserError: it is no address to post to."""
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise UserError(
                "the webhook of the alerts is not an http:// or https:// address",
                "mend webhook under [audit.alerts] in the settings",
            )
        return cls(url)

    @property
    def host(self) -> str:
        """The part of the address that may be shown."""
        return urlsplit(self.url).hostname or ""

    def post(self, body: Mapping[str, Any]) -> Refused | None:
        """Post it; None when it was taken (any 2xx). Blocks, for ``seconds`` at most."""
        return asyncio.run(self._post(body))

    async def _post(self, body: Mapping[str, Any]) -> Refused | None:
        import httpx  # 0.1 s to import, and who shows metrics or pages posts nothing

        try:
            async with (
                asyncio.timeout(self.seconds),
                httpx.AsyncClient(timeout=self.seconds) as client,
                client.stream("POST", self.url, json=body) as answer,
            ):
                if answer.is_success:
                    return None
                return Refused(f"{self.host} answered {answer.status_code}")
        except TimeoutError:
            return Refused(f"{self.host} did not answer within {self.seconds:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Refused(f"{self.host} cannot be reached: {type(error).__name__}")
