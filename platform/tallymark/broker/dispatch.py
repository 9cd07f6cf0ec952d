"""From a request's bytes to its handler and back: decode, call, encode, count.

A handler returns a frame, a response, or an awaitable of one. Only the dispatcher distinguishes
them; it returns an awaitable to the connection, which runs it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias, cast

from tallymark.broker.handlers import served
from tallymark.broker.handlers.k18_api_versions import unsupported_version
from tallymark.broker.metrics.counters import BOUNDS, ApiMetrics
from tallymark.broker.metrics.error_codes import error_codes
from tallymark.broker.requests.decode import decode_request
from tallymark.broker.requests.registry import Api, Call, Response
from tallymark.broker.state import BrokerState
from tallymark.broker.trail.entries import TRAILED
from tallymark.broker.trail.trail import Trail, TrailedRequest
from tallymark.errors import ProtocolError, RemoteProtocolError
from tallymark.net.server.handler import Answer, Connection
from tallymark.net.server.responses import Payload
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader, encode_response
from tallymark.protocol.schema import Message

_Result: TypeAlias = Answer | Response
"""A handler's result: a frame, or a response that must be encoded."""
_DONE: Final = (Payload, Message, type(None))


class _Request(NamedTuple):
    """A request that is being handled. ``began``: when it arrived, by perf_counter()."""

    header: RequestHeader
    stats: ApiMetrics
    began: float
    trailed: TrailedRequest | None


class Dispatcher:
    """The handler that the server calls for every request."""

    def __init__(self, state: BrokerState, trail: Trail | None = None) -> None:
        self._state = state
        self._trail = trail
        self._apis = {int(key): (api, state.metrics.api(key)) for key, api in served().items()}

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> Answer | Awaitable[Answer]:
        """Requests that come while the broker starts wait until it serves.

        Raises RemoteProtocolError for an API or version that is not served; this closes the
        connection. ApiVersions lists those that are served, and there is no response that the
        client could read."""
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
        """Call the handler; return the answer, or an awaitable of it if the handler returned
        one."""
        known = self._apis.get(header.api_key)
        if known is None:
            self._state.metrics.bad_requests += 1
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        api, stats = known
        stats.requests += 1
        stats.received_bytes += len(body)
        began = perf_counter()
        try:
            result, trailed = self._call(api, header, body, connection)
            if isinstance(result, bytes):  # most results: ApiMetrics.answered(), inlined
                seconds = perf_counter() - began
                stats.buckets[bisect_left(BOUNDS, seconds)] += 1
                stats.seconds += seconds
                stats.sent_bytes += len(result)
                return result
            request = _Request(header, stats, began, trailed)
            if isinstance(result, _DONE):
                return self._finish(request, result)
        except Exception as error:
            self._count(error)
            raise
        if isinstance(result, asyncio.Future):  # a parked fetch: no task for it
            parked = cast("asyncio.Future[Answer]", result)
            parked.add_done_callback(partial(self._parked, request))
            return parked
        return self._later(request, result)

    def _call(
        self, api: Api, header: RequestHeader, body: memoryview, connection: Connection
    ) -> tuple[_Result | Awaitable[_Result], TrailedRequest | None]:
        version = header.api_version
        if not api.low <= version <= api.high:
            if api.key is ApiKey.API_VERSIONS:
                return self._encode(unsupported_version(), 0, header), None
            raise RemoteProtocolError(
                f"{api.key.name} version {version} is not served, {api.low} to {api.high} are"
            )
        if api.raw is not None:
            return api.raw(self._state, body, header, connection), None
        assert api.handle is not None
        request = decode_request(api.request_class, version, body)
        trailed = None
        if self._trail is not None and api.key in TRAILED:
            trailed = TrailedRequest(self._trail, api.key, request, header.client_id, connection)
        call = Call(version, header.client_id, connection)
        return api.handle(self._state, request, call), trailed

    async def _later(self, request: _Request, result: Awaitable[_Result]) -> Answer:
        try:
            try:
                done = await result
            except BaseException as error:
                if request.trailed is not None:
                    request.trailed.failed(error)
                raise
            return self._finish(request, done)
        except Exception as error:
            self._count(error)
            raise

    def _parked(self, request: _Request, answer: asyncio.Future[Answer]) -> None:
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, Exception):
            self._count(error)
        else:
            self._finish(request, answer.result())

    def _finish(self, request: _Request, result: _Result) -> Answer:
        """The frame of a handler's result. Counts the request and adds it to the trail."""
        header, stats, began, trailed = request
        if trailed is not None:
            assert not isinstance(result, bytes | Payload)
            trailed.answered(result)
        if isinstance(result, Message):
            answer: Answer = self._encode(result, header.api_version, header)
        else:
            answer = result
        stats.answered(perf_counter() - began, 0 if answer is None else len(answer))
        return answer

    def _encode(self, response: Message, version: int, header: RequestHeader) -> bytes:
        _, stats = self._apis[header.api_key]
        for code in error_codes(response):
            stats.failed(code)
        return encode_response(response, version, header.correlation_id)

    def _count(self, error: Exception) -> None:
        if isinstance(error, ProtocolError):
            self._state.metrics.bad_requests += 1
        else:
            self._state.metrics.failed_requests += 1
