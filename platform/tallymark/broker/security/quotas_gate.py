"""The gate at which quotas are charged: Produce by the size of its request, Fetch by that of its
answer. An answer is never late: it says for how long the client is held back, and the broker reads
nothing more from the connection meanwhile (KIP-219).

Where the answer says so (``throttle_time_ms``)::

    Fetch    size i32 | correlation i32 | [no tags u8, from v12 on] | throttle_time_ms i32 | ...
    Produce  ... | throttle_time_ms i32 | [no tags u8, from v9 on]

A Produce answer with tagged fields (it names a new leader) is left as it is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, Final

from tallymark.broker.security.live import Security
from tallymark.broker.security.quotas import CONSUMER_BYTE_RATE, LONGEST_SECONDS, PRODUCER_BYTE_RATE
from tallymark.net.server.handler import Answer, Connection, Handler
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_FLEXIBLE_FROM: Final = {_PRODUCE: 9, _FETCH: 12}


class QuotaGate:
    """A :class:`~tallymark.net.server.connection.Handler` before ``handler``."""

    def __init__(self, handler: Handler, security: Security) -> None:
        self._handler = handler
        self._security = security
        self._clock = asyncio.get_running_loop().time

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer | Awaitable[Answer]:
        """Serve; then charge, and hold the client back where that is due."""
        if header.api_key > _FETCH or not self._security.quotas.active or header.api_key < 0:
            return self._handler(header, body, connection)
        size = len(body)
        answer = self._handler(header, body, connection)
        if inspect.isawaitable(answer):
            return self._later(header, size, connection, answer)
        return self._charged(header, size, connection, answer)

    async def _later(
        self,
        header: RequestHeader,
        size: int,
        connection: Connection,
        answer: Awaitable[Answer],
    ) -> Answer:
        return self._charged(header, size, connection, await answer)

    def _charged(
        self, header: RequestHeader, size: int, connection: Connection, answer: Answer
    ) -> Answer:
        produce = header.api_key == _PRODUCE
        wait = self._security.quotas.take(
            connection.principal.removeprefix("User:"),
            header.client_id or "",
            PRODUCER_BYTE_RATE if produce else CONSUMER_BYTE_RATE,
            size if produce else size_of(answer),
            self._clock(),
        )
        if wait <= 0:
            return answer
        wait = min(wait, LONGEST_SECONDS)
        connection.mute(wait)
        self._security.throttled[header.api_key] += 1
        return with_throttle(answer, header, max(1, round(wait * 1000)))


def size_of(answer: Answer) -> int:
    """The bytes of an answer."""
    if answer is None:
        return 0
    if isinstance(answer, bytes | bytearray | memoryview):
        return len(answer)
    return sum(
        len(part) if isinstance(part, bytes | bytearray | memoryview) else part.size
        for part in answer
    )


def with_throttle(answer: Answer, header: RequestHeader, throttle_ms: int) -> Answer:
    """The same answer, which says so (see the module's text)."""
    if answer is None:
        return None
    parts: list[Any] = (
        [answer] if isinstance(answer, bytes | bytearray | memoryview) else list(answer)
    )
    flexible = header.api_version >= _FLEXIBLE_FROM[header.api_key]
    if header.api_key == _FETCH:
        changed, place = bytearray(b"".join(_opening(parts))), 9 if flexible else 8
    else:
        changed = bytearray(b"".join(parts))
        parts, place = [], len(changed) - (5 if flexible else 4)
        if header.api_version == 0 or (flexible and changed[-1]):
            return bytes(changed)
    changed[place : place + 4] = throttle_ms.to_bytes(4, "big")
    return [bytes(changed), *parts] if parts else bytes(changed)


def _opening(parts: list[Any]) -> list[Any]:
    """Takes the parts that hold the first 13 bytes out of ``parts``."""
    taken: list[Any] = []
    while parts and sum(map(len, taken)) < 13:
        taken.append(parts.pop(0))
    return taken
