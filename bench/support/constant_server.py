"""The controls of ``bench/registry.py``: ``python constant_server.py asgi|bare PORT LOG``."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

from tallymark.net.web.access import WebAccess
from tallymark.net.web.access_log import AccessLog, AccessLogFile
from tallymark.net.web.server import WebServer, listen

_BODY: Final = b"x" * 2_000
_HEADERS: Final = [
    (b"content-type", b"application/vnd.schemaregistry.v1+json"),
    (b"content-length", b"%d" % len(_BODY)),
]


async def constant(scope: Any, receive: Any, send: Any) -> None:
    """An application that does nothing."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _BODY})


class Bare(asyncio.Protocol):
    """Answers whatever arrives."""

    _ANSWER: Final = (
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"%s: %s\r\n" % header for header in _HEADERS)
        + b"\r\n"
        + _BODY
    )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(self._ANSWER)


async def serve_bare(port: int) -> None:
    """Until it is ended."""
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
    await server.serve_forever()


def main(kind: str, port: int, log: Path) -> None:
    if kind == "bare":
        asyncio.run(serve_bare(port))
    listener = listen("127.0.0.1", port, "the control", "its port")
    app = AccessLog(WebAccess().around(constant), AccessLogFile(log))
    server = WebServer(app, listener, "constant")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()
    server.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
