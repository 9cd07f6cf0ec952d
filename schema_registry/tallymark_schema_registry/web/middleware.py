"""What happens to a request before any route sees it, as bare ASGI.

* ``GET /schemas/ids/{id}`` of a schema in memory is answered at once: schemas are immutable, and a
  start of many consumers asks for the same few ids again and again.
* Paths are routed as they were sent, percent-encoding included, so a subject ``a%2Fb`` is one
  segment; a trailing slash does not matter (Java clients send one and follow no redirect).
* A body of a foreign content type is 415, an Accept header that takes none of ours 406.
* What all bodies take together is bounded.
* JSON answers carry the content type that the client asked for.
"""

from __future__ import annotations

import json
import re
from typing import Final

from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.errors import RegistryError, http_error
from tallymark_schema_registry.web.asgi import App, Message, Receive, Send
from tallymark_schema_registry.web.body_memory import BodyMemory
from tallymark_schema_registry.web.negotiate import V1, answer_type, body_type_is_fine

Bodies = BoundedCache[int, bytes]
"""Schema id -> body of the answer to ``GET /schemas/ids/{id}``."""

_BY_ID: Final = re.compile(r"/schemas/ids/(\d{1,10})")


class Middleware:
    """Wraps ``app``. ``bodies`` maps a schema id to the body of its answer; routes fill it."""

    def __init__(self, app: App, bodies: Bodies) -> None:
        self._app = app
        self._bodies = bodies
        self._room = BodyMemory()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))
        kind = answer_type(headers.get(b"accept", b"").decode("latin-1"))
        if kind is None:
            await answer(send, *error_body(http_error(406, "Not Acceptable")))
            return
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        if scope["method"] in ("POST", "PUT") and not body_type_is_fine(content_type):
            error = http_error(415, "Unsupported Media Type")
            await answer(send, *error_body(error), kind)
            return
        path = _path(scope)
        if scope["method"] == "GET" and (match := _BY_ID.fullmatch(path)):
            body = self._bodies.get(int(match.group(1)))
            if body is not None:
                await answer(send, 200, body, kind)
                return
        receiver = self._room.of_request(receive)
        try:
            await self._app({**scope, "path": path}, receiver, _with_type(send, kind))
        finally:
            receiver.release()


def _path(scope: Message) -> str:
    """The path as sent, without a query (some servers leave it on) and a trailing slash."""
    raw = (scope.get("raw_path") or scope["path"].encode()).split(b"?", 1)[0].decode("latin-1")
    return raw.rstrip("/") or "/"


def _with_type(send: Send, kind: str) -> Send:
    async def typed(message: Message) -> None:
        if message["type"] == "http.response.start" and kind != V1:
            message["headers"] = [
                (name, kind.encode() if value == V1.encode() else value)
                for name, value in message["headers"]
            ]
        await send(message)

    return typed


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
