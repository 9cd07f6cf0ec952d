"""Connections that never ask for anything end, and are counted.

1,500 connections that had sent half a request each stayed with the registry for ever, until it had
no descriptors left and answered nobody.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from eventually import eventually

from tallymark.errors import UserError
from tallymark.net.tls.contexts import server_context
from tallymark.net.web.connection_bounds import WebLimits
from tallymark.net.web.http_pure import PureHttp
from tallymark.net.web.server import HTTP, HttpProtocol, WebServer, listen

SHORT = WebLimits(max_connections=8, max_per_host=8, handshake=0.3, head=0.3, body=0.3, unread=0.3)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Takes a body whole; ``/large`` answers 8 MiB."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(128 if scope["path"] == "/large" else 1):
        await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


Start = Callable[..., tuple[WebServer, int]]


def _protocols() -> list[HttpProtocol]:
    """That of h11, and that of httptools where it is installed."""
    return [PureHttp] if HTTP is PureHttp else [PureHttp, HTTP]


@pytest.fixture(params=_protocols(), ids=lambda http: http.__name__)
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def started(limits: WebLimits = SHORT, **more: Any) -> tuple[WebServer, int]:
            listener = listen("127.0.0.1", 0, "the test", "test.port")
            port = int(listener.getsockname()[1])
            server = WebServer(app, listener, "test", limits=limits, http=request.param, **more)
            stack.callback(server.close)
            return server, port

        yield started


def connection(port: int, sent: bytes = b"") -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", port), timeout=20)
    opened.sendall(sent)
    return opened


def is_closed(opened: socket.socket) -> bool:
    """Waits for the other side to close; False where an answer came instead."""
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Half: ",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_asks_for_nothing_is_closed(start: Start, sent: bytes) -> None:
    server, port = start()
    with connection(port, sent) as opened:
        assert is_closed(opened)
    eventually(lambda: server.quota.open == 0)


def test_bytes_that_trickle_in_do_not_wind_the_clock(start: Start) -> None:
    """One byte a second kept a connection open as long as one liked."""
    _, port = start()
    with connection(port, b"GET / HTTP/1.1\r\nHost: a\r\nX: ") as opened:
        with contextlib.suppress(OSError):
            for _ in range(400):
                opened.sendall(b"x")
                time.sleep(0.05)
            pytest.fail("20 s of one head")
        assert is_closed(opened)


def test_half_a_second_request_is_closed_too(start: Start) -> None:
    _, port = start()
    with connection(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as opened:
        left = 65_536
        while left > 0:
            left -= len(opened.recv(65_536))
        opened.sendall(b"GET / HTT")
        with contextlib.suppress(OSError):
            while opened.recv(65_536):
                pass


def test_who_does_not_read_the_answer_is_closed(start: Start) -> None:
    """8 MiB of an answer stayed in memory for as long as somebody did not read it."""
    server, port = start(replace(SHORT, unread=3))
    with connection(port, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"):
        eventually(lambda: server.quota.open == 1)
        eventually(lambda: server.quota.open == 0)


def test_connections_are_bounded_and_others_get_in_later(start: Start) -> None:
    limits = WebLimits(max_connections=8, max_per_host=8, head=20)
    server, port = start(limits)
    held = [connection(port, b"GET / HT") for _ in range(8)]
    eventually(lambda: server.quota.open == 8)
    with connection(port) as refused:
        assert is_closed(refused)
    assert server.quota.refused == 1
    for one in held:
        one.close()
    eventually(lambda: server.quota.open == 0)
    assert httpx.get(f"http://127.0.0.1:{port}/").is_success


def test_a_handshake_that_never_ends_is_counted_and_closed(start: Start, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    key = tmp_path / "key.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(key)
    server, port = start(replace(SHORT, handshake=3, head=30, unread=30), tls=server_context(key))
    with connection(port) as silent:
        eventually(lambda: server.quota.open == 1)
        assert is_closed(silent)
    eventually(lambda: server.quota.open == 0)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with httpx.Client(verify=trusting) as http:
        assert http.get(f"https://127.0.0.1:{port}/large").is_success
    eventually(lambda: server.quota.open == 0)


def test_an_idle_tls_connection_does_not_hold_up_the_end(start: Start, tmp_path: Path) -> None:
    """Closing waited 5 s for a client that was idle to agree to the end of TLS, and then left the
    socket open."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    key = tmp_path / "key.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(key)
    server, port = start(WebLimits(), tls=server_context(key))
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with trusting.wrap_socket(connection(port), server_hostname="127.0.0.1") as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert idle.recv(12) == b"HTTP/1.1 200"
        server.close()
        assert server.quota.open == 0


def test_garbage_is_one_line_in_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Every request that was none wrote a line: gigabytes a day."""
    _, port = start(WebLimits())
    with caplog.at_level(logging.WARNING, "uvicorn.error"):
        for _ in range(50):
            with connection(port, b"\x16\x03\x01 nonsense\r\n\r\n") as opened:
                opened.recv(1000)
    lines = [one for one in caplog.records if "Invalid HTTP request" in one.getMessage()]
    assert len(lines) <= 1


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0, "the test", "test.port") as first:
        first.listen()
        with pytest.raises(UserError, match="the test cannot listen on"):
            listen("127.0.0.1", first.getsockname()[1], "the test", "test.port")
