"""A web application over real HTTP on loopback, and a client that asks and does not read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn
from eventually import eventually
from fastapi import FastAPI


@contextmanager
def served(app: FastAPI, stopping: Callable[[], object]) -> Iterator[str]:
    """Serve the application; its address. ``stopping`` is called before the server ends."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stopping()
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def asked(url: str, path: str) -> Iterator[socket.socket]:
    """A connection on which ``path`` was asked for; it hangs up at the end of the block."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield connection
