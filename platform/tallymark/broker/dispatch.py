"""From a request's bytes to its handler and back: decode, call, encode."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any

from tallymark.broker.handlers import Call, Response, served
from tallymark.broker.handlers.k18_api_versions import unsupported_version
from tallymark.broker.requests import decode_request
from tallymark.broker.state import BrokerState
from tallymark.errors import RemoteProtocolError
from tallymark.net import ServerConnection
from tallymark.net.responses import SENDFILE_FROM
from tallymark.net.server_connection import Answer
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader, encode_response, encode_response_parts
from tallymark.protocol.messages import FetchResponse
from tallymark.protocol.schema import Message


class Dispatcher:
    """The handler that the server shell calls for every request."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._apis = {int(key): api for key, api in served().items()}

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: ServerConnection
    ) -> Answer | Awaitable[Answer]:
        """Requests that come while the broker starts wait until it serves.

        Raises RemoteProtocolError for what is not served, which closes the connection: the
        client has been told what is (ApiVersions), and no answer has a form it could read."""
        if not self._state.serving.is_set():
            return self._when_serving(header, body, connection)
        return self._answer(header, body, connection)

    async def _when_serving(
        self, header: RequestHeader, body: memoryview, connection: ServerConnection
    ) -> Answer:
        await self._state.serving.wait()
        answer = self._answer(header, body, connection)
        return await answer if isinstance(answer, Awaitable) else answer

    def _answer(
        self, header: RequestHeader, body: memoryview, connection: ServerConnection
    ) -> Answer | Awaitable[Answer]:
        api = self._apis.get(header.api_key)
        if api is None:
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        version = header.api_version
        if not api.low <= version <= api.high:
            if api.key is ApiKey.API_VERSIONS:
                return _encode(unsupported_version(), 0, header.correlation_id)
            raise RemoteProtocolError(
                f"{api.key.name} version {version} is not served, {api.low} to {api.high} are"
            )
        request = decode_request(api.request_class, version, body)
        answer = api.handle(self._state, request, Call(version, header.client_id, connection))
        if answer is None:
            return None
        if isinstance(answer, Message):
            return _encode(answer, version, header.correlation_id)
        assert inspect.isawaitable(answer)
        return _encode_later(answer, version, header.correlation_id)


async def _encode_later(answer: Awaitable[Response], version: int, correlation_id: int) -> Answer:
    response = await answer
    return None if response is None else _encode(response, version, correlation_id)


def _encode(response: Message, version: int, correlation_id: int) -> Answer:
    if isinstance(response, FetchResponse):
        return coalesce(encode_response_parts(response, version, correlation_id))
    return encode_response(response, version, correlation_id)


def coalesce(parts: Sequence[Any]) -> Answer:
    """The same bytes in as few parts as possible: each part is a system call for the writer.

    Slices of files that are too small for sendfile to pay off are read here and now.
    """
    whole: list[Any] = []
    run: list[Any] = []
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            run.append(part)
        elif part.size < SENDFILE_FROM:
            run.append(part.read())
        else:
            whole += (b"".join(run), part)
            run = []
    if not whole:
        return b"".join(run)
    if run:
        whole.append(b"".join(run))
    return whole
