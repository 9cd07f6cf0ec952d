"""Web pages of others cannot reach in.

A page that somebody opened on the machine of a deployment registered schemas (a POST without a
content type needs nobody's leave), and one whose name stood for 127.0.0.1 a minute later read the
whole audit.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tallymark.net.web.guard import OwnNames, WebGuard, host_of, refusal

NAMES = OwnNames(
    ("registry.example", "0.0.0.0", "https://console.example/audit", "proxy:8443", "fe80::1", "")
)


def status(method: str, local: str = "10.0.0.7", **headers: str) -> int | None:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    found = refusal(method, given, NAMES, local)
    return found.status if found else None


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("127.0.0.1:8081", True),
        ("127.8.9.1", True),
        ("localhost:8081", True),
        ("LOCALHOST.", True),
        ("[::1]:8081", True),
        ("[fe80::1]:80", True),
        ("registry.example:1", True),
        ("Registry.Example", True),
        ("console.example", True),
        ("proxy", True),
        ("10.0.0.7:8081", True),  # the address that the connection came in by
        ("", True),  # HTTP/1.0; a browser always sends one
        ("10.0.0.8:8081", False),
        ("0.0.0.0:8081", False),
        ("evil.example:8081", False),
        ("registry.example.evil.example", False),
        ("evil-registry.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("2130706433", False),
        ("evil.example@127.0.0.1", False),
        ("127.0.0.1 evil.example", False),
        ("127.0.0.1/", False),
        ("[::1", False),
        ("é.example", False),
    ],
)
def test_hosts(host: str, served: bool) -> None:
    """DNS rebinding: the name of the page stands for our address, and says so in ``Host``."""
    assert (status("GET", host=host) is None) == served
    assert status("GET", host=host) in (None, 421)


OWN = "127.0.0.1:8081"


@pytest.mark.parametrize(
    ("method", "headers", "found"),
    [
        ("POST", {}, None),  # curl, and every client library
        ("POST", {"origin": "http://evil.example"}, 403),
        ("PUT", {"origin": "http://evil.example"}, 403),
        ("DELETE", {"origin": "http://evil.example"}, 403),
        ("POST", {"origin": "null"}, 403),  # a sandboxed frame, a file
        ("POST", {"origin": "http://127.0.0.1:9999"}, 403),  # another program of this machine
        ("POST", {"origin": "http://127.0.0.1:8081"}, None),
        ("POST", {"origin": "https://127.0.0.1:8081"}, None),  # behind a proxy that speaks TLS
        ("POST", {"origin": "moz-extension://127.0.0.1:8081"}, 403),
        ("GET", {"origin": "http://evil.example"}, None),  # without CORS it is not shown the answer
        ("POST", {"sec_fetch_site": "cross-site"}, 403),
        ("POST", {"sec_fetch_site": "same-site"}, 403),
        ("POST", {"sec_fetch_site": "same-origin"}, None),
        # Behind a proxy that says another Host than it was asked for.
        ("POST", {"sec_fetch_site": "same-origin", "origin": "https://proxy.example"}, None),
        ("POST", {"sec_fetch_site": "none", "origin": "https://proxy.example"}, 403),
        ("GET", {"sec_fetch_site": "none"}, None),  # typed, or from a bookmark
        ("GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        (
            "GET",
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "document",
            },
            None,
        ),
        (
            "GET",
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "iframe",
            },
            403,
        ),
        (
            "POST",
            {
                "sec_fetch_site": "cross-site",
                "sec_fetch_mode": "navigate",
                "sec_fetch_dest": "document",
            },
            403,
        ),
    ],
)
def test_requests_of_pages(method: str, headers: dict[str, str], found: int | None) -> None:
    assert status(method, host=OWN, **headers) == found


def test_default_ports_are_no_difference() -> None:
    assert status("POST", host="registry.example", origin="https://registry.example:443") is None
    assert status("POST", host="registry.example:80", origin="http://registry.example") is None


def test_the_host_of_an_authority() -> None:
    assert host_of("[::1]:80") == "::1"
    assert host_of("a.example.:80") == "a.example"
    assert host_of("a:b") is None


def test_what_is_refused_never_reaches_the_application() -> None:
    reached: list[str] = []
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})

    async def receive() -> Any:
        raise AssertionError("the body of a refused request is not read")

    async def send(message: Any) -> None:
        sent.append(message)

    guard = WebGuard(app, NAMES)
    base = {"type": "http", "method": "POST", "path": "/", "server": ("127.0.0.1", 8081)}
    foreign = {**base, "headers": [(b"host", OWN.encode()), (b"origin", b"http://evil.example")]}
    asyncio.run(guard(foreign, receive, send))
    assert reached == []
    assert sent[0]["status"] == 403
    assert json.loads(sent[1]["body"]) == {
        "error_code": 403,
        "message": "a page of 'http://evil.example' may change nothing here",
    }
    sent.clear()
    asyncio.run(guard({**base, "headers": [(b"host", OWN.encode())]}, receive, send))
    assert reached == ["/"]
    assert (b"cross-origin-resource-policy", b"same-origin") in sent[0]["headers"]
