"""A server that answers as a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tallymark.closing import ClosedByWith


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. ``path`` with its query; ``body`` as JSON, None for none."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """``body``: bytes as they are, all else as JSON. ``None``: no body."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedRegistry(ClosedByWith):
    """Answers with what ``script`` returns for a request; None closes the connection without an
    answer. Each request in a thread of its own."""

    def __init__(self, script: Callable[[Asked], Answer | None]) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: ScriptedRegistry) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for each other, 40 ms

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        assert isinstance(self.server, _Server)
        size = int(self.headers.get("content-length", "0"))
        body = json.loads(self.rfile.read(size)) if size else None
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, body, headers)
        self.server.owner.asked.append(asked)
        answer = self.server.owner.script(asked)
        if answer is None:
            self.close_connection = True
            return
        content = (
            answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        )
        content = b"" if answer.body is None else content
        self.send_response(answer.status)
        for name, value in {**answer.headers, "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        pass
