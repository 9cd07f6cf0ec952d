"""A webhook on loopback that takes posts, refuses them, hangs or drips, as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Mood = Literal["takes", "refuses", "hangs", "drips", "nonsense"]


class Receiver(ThreadingHTTPServer):
    """``taken``: the bodies it answered 200 to; ``asked``: how many posts came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood: Mood = "takes"
        self.taken: list[dict[str, Any]] = []
        self.asked = 0
        self.stopped = threading.Event()

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver = self.server
        receiver.asked += 1
        if receiver.mood == "hangs":
            receiver.stopped.wait()
        elif receiver.mood == "drips":
            self._drip()
        elif receiver.mood == "nonsense":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
        else:
            takes = receiver.mood == "takes"
            if takes:
                receiver.taken.append(json.loads(body))
            self.send_response(200 if takes else 500)
            self.end_headers()

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.stopped.is_set():
            try:
                self.wfile.write(b"x")
            except OSError:
                return
            time.sleep(0.02)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def webhook_receiver() -> Iterator[Receiver]:
    """A receiver that serves until the end of the block."""
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.stopped.set()
            receiver.shutdown()
            thread.join()
