"""A registry in memory behind a real socket, for commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from memory_registry import MemoryRegistry

from tallymark.serialization import RegistryError


@contextmanager
def serving(registry: MemoryRegistry, token: str = "") -> Iterator[str]:
    """Its address; with ``token`` it answers nobody else."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece: else each answer waits for an ACK

        def do_GET(self) -> None:
            self._handle()

        do_PUT = do_POST = do_DELETE = do_GET

        def _handle(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if token and self.headers.get("authorization") != f"Bearer {token}":
                return self._send(401, {"error_code": 401, "message": "Unauthorized"})
            try:
                return self._send(200, registry.request(self.command, self.path, body))
            except RegistryError as error:
                answer = {"error_code": error.code, "message": error.message}
                return self._send(error.status, answer)

        def _send(self, status: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
