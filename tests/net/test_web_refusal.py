"""What somebody sees who is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tallymark.net.web.access_log import Message
from tallymark.net.web.guard import OwnNames, WebGuard
from tallymark.net.web.login import BasicLogin, WebLogin
from tallymark.net.web.refusal import refusal_page, wants_page

BROWSER = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Nobody:
    """There are no users."""

    version = 1

    def knows(self, name: str) -> bool:
        return False

    def fits(self, name: str, password: str) -> bool:
        return False


async def nothing(scope: Message, receive: Any, send: Any) -> None:
    raise AssertionError("it was let through")


def ask(app: Any, *headers: tuple[bytes, bytes]) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the answer."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": list(headers),
        "client": ("10.0.0.7", 4),
        "server": ("10.0.0.1", 8080),
    }
    asyncio.run(app(scope, None, send))
    start, body = sent
    found = dict(start["headers"])
    assert int(found[b"content-length"]) == len(body["body"])
    return start["status"], found, body["body"]


@pytest.mark.parametrize(
    ("app", "host", "status", "title"),
    [
        (WebLogin(nothing, BasicLogin(Nobody())), b"10.0.0.1:8080", 401, "You are not logged in"),
        (WebGuard(nothing, OwnNames()), b"<b>.example", 421, "This server has another name"),
    ],
)
def test_a_person_gets_a_page_and_a_program_gets_json(
    app: Any, host: bytes, status: int, title: str
) -> None:
    """Somebody who cancelled the browser's log-in saw ``{"error_code": 401, ...}`` in small type on
    a white page."""
    found, headers, body = ask(app, (b"host", host), (b"accept", BROWSER))
    assert found == status
    assert headers[b"content-type"].startswith(b"text/html")
    assert f"<h1>{title}</h1>" in body.decode()
    assert b"<b>" not in body
    assert b"'none'" in headers[b"content-security-policy"]
    assert (b"www-authenticate" in headers) == (status == 401)
    for accept in (b"*/*", b"application/json", b"application/vnd.schemaregistry.v1+json"):
        found, headers, body = ask(app, (b"host", host), (b"accept", accept))
        assert (found, headers[b"content-type"]) == (status, b"application/json")
        assert json.loads(body)["error_code"] == status
    assert ask(app, (b"host", host))[1][b"content-type"] == b"application/json"


def test_the_page_stands_alone() -> None:
    """Who is not let in gets no style sheet and no picture either."""
    body, _ = refusal_page(403, "a page of 'https://<x>' may change nothing here")
    assert b"src=" not in body
    assert b"href=" not in body
    assert b"A page of &#x27;https://&lt;x&gt;&#x27; may change nothing here." in body
    assert wants_page("Text/HTML")
    assert not wants_page(b"")
