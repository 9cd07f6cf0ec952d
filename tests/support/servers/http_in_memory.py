"""An HTTP protocol of the web server over a connection in memory: what the application is asked,
and the bytes that are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState

from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.web.access_log import App, Message
from tallymark.net.web.connection_bounds import BoundedConnection, WebLimits


class Asked(NamedTuple):
    """One request, as the application was given it."""

    method: str
    raw_path: bytes
    query: bytes
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Served(NamedTuple):
    """``answers`` are all bytes that were written."""

    asked: list[Asked]
    answers: bytes
    closed: bool


class MemoryTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, local: tuple[str, int] = ("127.0.0.1", 8081)) -> None:
        super().__init__({"peername": ("10.0.0.1", 5), "sockname": local})
        self.written = bytearray()
        self.closed = False
        self.protocol: BoundedConnection

    def write(self, data: Any) -> None:
        if not self.closed:
            self.written += data

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_reading(self) -> bool:
        return True


def recorder(asked: list[Asked], answer: bytes = b"ok") -> App:
    """An application that notes each request, its body read, and answers 200."""

    async def app(scope: Message, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked.append(
            Asked(
                scope["method"],
                scope["raw_path"],
                scope["query_string"],
                scope["http_version"],
                tuple(scope["headers"]),
                body,
            )
        )
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app


def connect(http: Callable[..., BoundedConnection], app: App) -> MemoryTransport:
    """A new connection; the loop must run. Its ``protocol`` takes the bytes."""
    state = ServerState()
    state.default_headers = [(b"date", b"Fri, 13 Nov 2026 08:00:00 GMT")]
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none")
    protocol = http(
        WebLimits(),
        ConnectionQuota(10, 10),
        False,
        config=config,
        server_state=state,
        app_state={},
    )
    transport = MemoryTransport()
    transport.protocol = protocol
    protocol.connection_made(transport)
    return transport


async def settle() -> None:
    """Let the tasks go on until they wait for something."""
    for _ in range(60):
        await asyncio.sleep(0)


def serve(
    http: Callable[..., BoundedConnection], pieces: Sequence[bytes], together: bool = True
) -> Served:
    """What becomes of the bytes ``pieces``; ``together``: all come before anything is answered."""
    asked: list[Asked] = []

    async def run() -> Served:
        transport = connect(http, recorder(asked))
        for piece in pieces:
            if not transport.closed:
                transport.protocol.data_received(piece)
            if not together:
                await settle()
        await settle()
        served = Served(asked, bytes(transport.written), transport.closed)
        transport.close()
        await settle()
        return served

    return asyncio.run(run())
