"""Which headers about the address in the browser are believed, and from which peer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallymark.deployment.dashboards import ProxyLogin
from tallymark.net.web.access import PEER, SCHEME
from tallymark_dashboards.access.forwarded import PREFIX, Forwarded, Outside, outside_of
from tallymark_dashboards.access.identity import TrustedProxy

PROXY, STRANGER = "10.0.0.7", "10.0.0.8"
HEADERS = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "tallymark.example:8443",
    "X-Forwarded-Prefix": "/audit/",
}
TEN_KB = "x" * 10_240


def ask(given: list[tuple[bytes, bytes]], peer: str, scheme: str = "http") -> tuple[int, Any]:
    """The status, and the scope that the application sees (None: it is not reached)."""
    seen: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    proxy = TrustedProxy(ProxyLogin(trusted_peers=(PROXY,)))
    scope = {
        "type": "http",
        "path": "/",
        "scheme": scheme,
        SCHEME: "http",
        "client": (PROXY, 1),  # as a header says
        PEER: (peer, 1),
        "headers": [(b"host", b"127.0.0.1:8080"), *given],
    }
    asyncio.run(Forwarded(app, proxy)(scope, receive, send))
    return sent[0]["status"], seen[0] if seen else None


def raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def test_a_trusted_proxy_says_which_address_the_browser_asked() -> None:
    status, scope = ask(raw(HEADERS), PROXY)
    assert status == 200
    assert (scope["scheme"], scope[PREFIX]) == ("https", "/audit")
    assert scope["headers"] == [(b"host", b"tallymark.example:8443")]


def test_headers_of_other_peers_are_removed() -> None:
    status, scope = ask(raw(HEADERS), STRANGER)
    assert status == 200
    assert scope["scheme"] == "http"
    assert PREFIX not in scope
    assert scope["headers"] == [(b"host", b"127.0.0.1:8080")]


def test_the_scheme_is_that_of_the_connection() -> None:
    """uvicorn takes the scheme from X-Forwarded-Proto of any program on this machine."""
    assert ask([], STRANGER, scheme="https")[1]["scheme"] == "http"
    assert ask(raw(HEADERS), STRANGER, scheme="https")[1]["scheme"] == "http"


HOSTILE = [
    ("X-Forwarded-Prefix", "//evil.example"),
    ("X-Forwarded-Prefix", "/audit//evil.example"),
    ("X-Forwarded-Prefix", "https://evil.example"),
    ("X-Forwarded-Prefix", "javascript:alert(1)"),
    ("X-Forwarded-Prefix", "/../.."),
    ("X-Forwarded-Prefix", "/a/%2e%2e"),
    ("X-Forwarded-Prefix", "/a\\b"),
    ("X-Forwarded-Prefix", '/a" onload="x'),
    ("X-Forwarded-Prefix", "/a\r\nSet-Cookie: x=1"),
    ("X-Forwarded-Prefix", "/a\n"),
    ("X-Forwarded-Prefix", "/a, /b"),
    ("X-Forwarded-Prefix", "audit"),
    ("X-Forwarded-Prefix", "/\u202eaudit"),
    ("X-Forwarded-Prefix", "/" + TEN_KB),
    ("X-Forwarded-Proto", "javascript"),
    ("X-Forwarded-Proto", "https, http"),
    ("X-Forwarded-Proto", "https\r\nx: y"),
    ("X-Forwarded-Proto", TEN_KB),
    ("X-Forwarded-Host", "//evil.example"),
    ("X-Forwarded-Host", "evil.example/path"),
    ("X-Forwarded-Host", "user@evil.example"),
    ("X-Forwarded-Host", "a.example, b.example"),
    ("X-Forwarded-Host", "a.example\r\nx: y"),
    ("X-Forwarded-Host", "a.example:port"),
    ("X-Forwarded-Host", "javascript:alert(1)"),
    ("X-Forwarded-Host", TEN_KB),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_what_is_no_such_value_is_refused(name: str, value: str) -> None:
    status, scope = ask(raw({name: value}), PROXY)
    assert (status, scope) == (400, None)
    said = outside_of(raw({name: value})).wrong
    assert said.startswith(f"{name} of the proxy is ")
    assert len(said) < 250
    assert said.isprintable()
    assert said.isascii()


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_from_others_it_is_ignored(name: str, value: str) -> None:
    status, scope = ask(raw({name: value}), STRANGER)
    assert status == 200
    assert scope["headers"] == [(b"host", b"127.0.0.1:8080")]


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_the_proxy_passed_on_is_refused(name: str) -> None:
    """A proxy that adds its header beside the client's let every client choose the address."""
    twice = raw({name: HEADERS[name]}) * 2
    assert ask(twice, PROXY) == (400, None)
    assert name in outside_of(twice).wrong


def test_an_empty_value_says_nothing_and_a_slash_is_the_root() -> None:
    assert outside_of(raw(dict.fromkeys(HEADERS, ""))) == Outside()
    assert outside_of(raw({"X-Forwarded-Prefix": "/"})) == Outside(prefix="")
