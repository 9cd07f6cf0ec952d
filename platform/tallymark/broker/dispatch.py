"""From a request's bytes to its handler and back: decode, call, encode."""

from __future__ import annotations

import asyncio
import inspect
from bisect import bisect_left
from collections.abc import Awaitable
from functools import partial
from time import perf_counter
from typing import Any, Final

from tallymark.broker.handlers import served
from tallymark.broker.handlers.k18_api_versions import unsupported_version
from tallymark.broker.metrics.counters import BOUNDS, ApiMetrics
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.broker.requests.decode import decode_request
from tallymark.broker.requests.registry import Api, Call, Response
from tallymark.broker.state import BrokerState
from tallymark.broker.trail.entries import TRAILED
from tallymark.broker.trail.trail import Trail
from tallymark.errors import ProtocolError, RemoteProtocolError
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader, encode_response
from tallymark.protocol.schema import Message

_READY: Final = frozenset((bytes, list, bytearray, tuple, memoryview, type(None)))
"""Classes of answers that are there; anything else is to be awaited."""


class Dispatcher:
    """The handler that the server shell calls for every request."""

    def __init__(self, state: BrokerState, trail: Trail | None = None) -> None:
        self._state = state
        self._trail = trail
        self._apis = {int(key): (api, state.metrics.api(key)) for key, api in served().items()}

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer | Awaitable[Answer]:
        """Requests that come while the broker starts wait until it serves.

        Raises RemoteProtocolError for what is not served, which closes the connection: the
        client has been told what is (ApiVersions), and no answer has a form it could read."""
        if not self._state.serving.is_set():
            return self._when_serving(header, body, connection)
        return self._answer(header, body, connection)

    async def _when_serving(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer:
        await self._state.serving.wait()
        answer = self._answer(header, body, connection)
        return await answer if isinstance(answer, Awaitable) else answer

    def _answer(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer | Awaitable[Answer]:
        """Serve the request and count it."""
        served = self._apis.get(header.api_key)
        if served is None:
            self._state.metrics.bad_requests += 1
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        api, stats = served
        stats.requests += 1
        stats.received_bytes += len(body)
        began = perf_counter()
        try:
            answer = self._serve(api, stats, header, body, connection)
        except Exception as error:
            self._count(error)
            raise
        if isinstance(answer, bytes):  # what most are: ApiMetrics.answered() without its calls
            seconds = perf_counter() - began
            stats.buckets[bisect_left(BOUNDS, seconds)] += 1
            stats.seconds += seconds
            stats.sent_bytes += len(answer)
            return answer
        if answer.__class__ in _READY:
            stats.answered(perf_counter() - began, _size(answer))
            return answer
        if isinstance(answer, asyncio.Future):  # a parked fetch: no task for it
            answer.add_done_callback(partial(self._done, stats, began))
            return answer
        assert isinstance(answer, Awaitable)
        return self._later(stats, began, answer)

    async def _later(self, stats: ApiMetrics, began: float, answer: Awaitable[Answer]) -> Answer:
        try:
            ready = await answer
        except Exception as error:
            self._count(error)
            raise
        stats.answered(perf_counter() - began, _size(ready))
        return ready

    def _done(self, stats: ApiMetrics, began: float, answer: asyncio.Future[Answer]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, Exception):
            self._count(error)
        else:
            stats.answered(perf_counter() - began, _size(answer.result()))

    def _count(self, error: Exception) -> None:
        if isinstance(error, ProtocolError):
            self._state.metrics.bad_requests += 1
        else:
            self._state.metrics.failed_requests += 1

    def _serve(
        self,
        api: Api,
        stats: ApiMetrics,
        header: RequestHeader,
        body: memoryview,
        connection: Connection,
    ) -> Answer | Awaitable[Answer]:
        version = header.api_version
        if not api.low <= version <= api.high:
            if api.key is ApiKey.API_VERSIONS:
                return _encode(unsupported_version(), stats, 0, header.correlation_id)
            raise RemoteProtocolError(
                f"{api.key.name} version {version} is not served, {api.low} to {api.high} are"
            )
        if api.raw is not None:
            return api.raw(self._state, body, header, connection)
        assert api.handle is not None
        request = decode_request(api.request_class, version, body)
        call = Call(version, header.client_id, connection)
        trail = self._trail if api.key in TRAILED else None
        if trail is None:
            answer = api.handle(self._state, request, call)
        else:
            before = trail.before(api.key, request)
            answer = api.handle(self._state, request, call)
            answer = trail.served(api.key, request, header.client_id, connection, answer, before)
        if answer is None:
            return None
        if isinstance(answer, Message):
            return _encode(answer, stats, version, header.correlation_id)
        assert inspect.isawaitable(answer)
        return _encode_later(answer, stats, version, header.correlation_id)


async def _encode_later(
    answer: Awaitable[Response], stats: ApiMetrics, version: int, correlation_id: int
) -> Answer:
    response = await answer
    return None if response is None else _encode(response, stats, version, correlation_id)


def _encode(response: Message, stats: ApiMetrics, version: int, correlation_id: int) -> Answer:
    for code in error_codes(response):
        stats.failed(code)
    return encode_response(response, version, correlation_id)


def _size(answer: Any) -> int:
    """Bytes of an answer: one buffer, or buffers and slices of files."""
    if answer is None:
        return 0
    if answer.__class__ is list or answer.__class__ is tuple:
        return sum(part.size if hasattr(part, "size") else len(part) for part in answer)
    return len(answer)
