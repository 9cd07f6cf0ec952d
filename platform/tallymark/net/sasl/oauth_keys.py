"""The keys that verify tokens: a JSON Web Key Set, from a file or over HTTPS.

The set is read at the start, again every ``sasl.oauthbearer.jwks.endpoint.refresh.ms``, and when a
token names a key that is not in the set: the issuer may have a new key. The latter happens at most
once in :data:`AGAIN_SECONDS`, whatever clients send, and one reading serves all waiting log-ins. If
the set cannot be read, this is logged, and the earlier keys stay valid.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tallymark.net.sasl.oauth_tokens import KeySet
from tallymark.net.sasl.oauth_urls import LOOPBACK, file_of

log: Final = logging.getLogger("tallymark.logins")

MAX_BYTES: Final = 1024 * 1024
READ_SECONDS: Final = 10.0
"""Time for the whole response."""
AGAIN_SECONDS: Final = 10.0


async def read_jwks(url: str) -> bytes:
    """The bytes of the key set. OSError, ValueError or httpx.HTTPError where it cannot be read
    within :data:`READ_SECONDS` and :data:`MAX_BYTES`."""
    path = file_of(url)
    if path is not None:
        return await asyncio.to_thread(_read_file, path)
    import httpx  # 0.1 s to import

    found = bytearray()
    async with (
        asyncio.timeout(READ_SECONDS),
        httpx.AsyncClient(
            timeout=READ_SECONDS,
            # No compression, so the bytes in memory are as many as the bytes received.
            headers={"accept": "application/json", "accept-encoding": "identity"},
            trust_env=urlsplit(url).hostname not in LOOPBACK,
        ) as client,
        client.stream("GET", url) as answer,
    ):
        if answer.status_code != 200:
            raise ValueError(f"HTTP {answer.status_code}")
        async for part in answer.aiter_raw():
            found += part
            if len(found) > MAX_BYTES:
                raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return bytes(found)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        found = file.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return found


class OAuthKeys:
    """The key set at ``url``, kept up to date on the running loop."""

    def __init__(
        self,
        url: str,
        refresh_seconds: float,
        read: Callable[[str], Awaitable[bytes]] = read_jwks,
    ) -> None:
        self.keys = KeySet()
        self.readings = 0
        """How often the set was requested."""
        self._url = url
        self._refresh_seconds = refresh_seconds
        self._read = read
        self._clock = asyncio.get_running_loop().time
        self._reading: asyncio.Task[None] | None = None
        self._asked_at = -AGAIN_SECONDS
        self._follower: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read the set, and read it again at intervals. If it cannot be read now, this is logged;
        until it can, no client can log in with a token."""
        await self._refreshed()
        self._follower = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop reading. Idempotent."""
        for task in (self._follower, self._reading):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._follower = self._reading = None

    async def ready(self, kid: str | None) -> None:
        """Return when the key is known, or cannot be fetched now."""
        if self.keys.has(kid):
            return
        if self._reading is None and self._clock() - self._asked_at < AGAIN_SECONDS:
            return
        await self._refreshed()

    async def _refreshed(self) -> None:
        if self._reading is None:
            self._asked_at = self._clock()
            self._reading = asyncio.create_task(self._refresh())
        await asyncio.shield(self._reading)

    async def _refresh(self) -> None:
        from httpx import HTTPError, InvalidURL

        self.readings += 1
        try:
            self.keys = KeySet.parse(await self._read(self._url))
        except (OSError, ValueError, TimeoutError, HTTPError, InvalidURL) as error:
            why = str(error) or type(error).__name__
            log.error(
                "the keys of tokens cannot be read from %s: %s; %d read before stay",
                self._url,
                why,
                len(self.keys),
            )
        else:
            log.info("keys of tokens read count=%d from=%s", len(self.keys), self._url)
        finally:
            self._reading = None

    async def _follow(self) -> None:
        while True:
            known = len(self.keys) > 0
            await asyncio.sleep(self._refresh_seconds if known else AGAIN_SECONDS)
            await self._refreshed()
