"""What happens to a request before any route sees it, as bare ASGI.

* Paths are routed as they were sent (:mod:`.paths`); ``/contexts/{c}/...`` is the path without its
  beginning, in that context.
* HEAD is answered as GET, without the body.
* A body of a foreign content type is 415, an Accept header that takes none of ours 406.
* What all bodies take together is bounded.
* JSON answers carry the content type that the client asked for.
"""

from __future__ import annotations

import json
from typing import Final

from tallymark_schema_registry.errors import RegistryError, http_error
from tallymark_schema_registry.web.asgi import App, Message, Receive, Send
from tallymark_schema_registry.web.body_memory import BodyMemory
from tallymark_schema_registry.web.negotiate import V1, answer_type, body_type_is_fine
from tallymark_schema_registry.web.paths import CONTEXT, path_of, split_context

PAGES: Final = frozenset(("/docs", "/openapi.json", "/metrics"))
"""They have types of their own: what the client accepts is not looked at."""


class Middleware:
    """Wraps ``app``, the routes."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._room = BodyMemory()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        path = path_of(scope)
        kind = V1
        if path not in PAGES:
            headers = dict(reversed(scope["headers"]))
            kind = answer_type(headers.get(b"accept", b"").decode("latin-1")) or ""
            refused = _refused(scope, headers, kind)
            if refused:
                await answer(send, *error_body(refused), kind or V1)
                return
        try:
            context, path = split_context(path)
        except RegistryError as error:
            await answer(send, *error_body(error), kind)
            return
        inner = {**scope, "path": path}
        if context:
            inner[CONTEXT] = context
        receiver = self._room.of_request(receive)
        try:
            await self._app(inner, receiver, _with_type(send, kind))
        finally:
            receiver.release()


def _refused(scope: Message, headers: dict[bytes, bytes], kind: str) -> RegistryError | None:
    """Why the content types of a request make an answer impossible."""
    if not kind:
        return http_error(406, "Not Acceptable")
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if scope["method"] in ("POST", "PUT") and not body_type_is_fine(content_type):
        return http_error(415, "Unsupported Media Type")
    return None


def _with_type(send: Send, kind: str) -> Send:
    if kind == V1:
        return send

    async def typed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                (name, kind.encode() if value == V1.encode() else value)
                for name, value in message["headers"]
            ]
        await send(message)

    return typed


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return headers_only


def error_body(error: RegistryError) -> tuple[int, bytes]:
    """Status and body of an error."""
    body = {"error_code": error.code, "message": error.message}
    return error.status, json.dumps(body).encode()


async def answer(send: Send, status: int, body: bytes, kind: str = V1) -> None:
    """A whole answer."""
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
