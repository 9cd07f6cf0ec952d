"""An answer from memory is the answer: the same bytes, the same order, the same line in the log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from http_in_memory import MemoryTransport, connect, settle
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from tallymark.net.web.access_log import AccessLog, App
from tallymark.net.web.guard import OwnNames, WebGuard
from tallymark_schema_registry.access.grants import Grants, Principal
from tallymark_schema_registry.web.front.answer_memory import AnswerMemory
from tallymark_schema_registry.web.front.front import Front
from tallymark_schema_registry.web.front.remember import remember
from tallymark_schema_registry.web.front.tags import Tag
from tallymark_schema_registry.web.metrics.counts import RequestCounts
from tallymark_schema_registry.web.middleware import Middleware, answer

pytest.importorskip("httptools")
from tallymark.net.web.http_compiled import CompiledHttp
from tallymark_schema_registry.web.front.protocol import FrontHttp

STATE: Tag = ("subject", ".", "state")
SEEN = (b"if-none-match", b"x-a", b"cookie")
"""Headers that the application's answers depend on."""


CLOSING = [(b"connection", b"close"), (b"content-length", b"0")]


class OneUser:
    """Credentials of which one is valid; what it may see changes with ``generation``."""

    def __init__(self) -> None:
        self.generation = 0
        self.valid = {b"Basic one": Principal("one", Grants())}

    def principal_of(self, authorization: bytes) -> Principal | None:
        return self.valid.get(authorization)


class Served:
    """One server whose answers depend on a number that PUT counts up. ``plain``: without a front.
    ``asked`` counts what the application saw."""

    def __init__(self, plain: bool = False, users: OneUser | None = None) -> None:
        self.number = 0
        self.asked = 0
        self.lines: list[str] = []
        self.memory = AnswerMemory()
        self.confirms: list[Callable[[], None]] = []
        self.confirm: Callable[[Callable[[], None]], None] = lambda then: then()
        names = OwnNames()
        self.front = Front(
            self.memory, self._confirm, RequestCounts(), credentials=users, log=self.lines.append
        )
        inner: App = Middleware(self._app)
        self.app = AccessLog(WebGuard(inner, names), self.lines.append)
        self.http = CompiledHttp if plain else partial(FrontHttp, self.front)

    def connect(self) -> MemoryTransport:
        return connect(self.http, self.app)

    def _confirm(self, then: Callable[[], None]) -> None:
        self.confirm(then)

    def change(self) -> None:
        self.number += 1
        self.memory.drop([STATE])

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        request = Request(scope, receive)
        body = await request.body()
        path = scope["path"]
        if scope["method"] == "PUT":
            self.change()
            await answer(send, 200, b"")
            return
        remember(request, [STATE], lasting=path.startswith("/schemas"))
        if path == "/no":
            await answer(send, 404, b"{}")
            return
        if path == "/closing":
            await send({"type": "http.response.start", "status": 200, "headers": CLOSING})
            await send({"type": "http.response.body", "body": b""})
            return
        seen = [request.headers.get(name.decode(), "") for name in SEEN]
        number = 0 if path.startswith("/schemas") else self.number
        text = f"{scope['method']} {path} {scope['query_string']!r} {seen} {number} {len(body)}"
        await answer(send, 200, text.encode() + body[:20])


def request(
    line: bytes, headers: tuple[bytes, ...] = (b"Host: 127.0.0.1:8081",), body: bytes = b""
) -> bytes:
    length = (b"Content-Length: %d" % len(body),) if body else ()
    return b"\r\n".join([line + b" HTTP/1.1", *headers, *length, b"", body])


GET = request(b"GET /schemas/ids/1")
LATEST = request(b"GET /subjects/a/versions/latest")
REGISTER = request(b"POST /subjects/a/versions", body=b'{"schema": "\\"int\\""}')


async def ask(transport: MemoryTransport, data: bytes) -> bytes:
    """Send ``data``; what is answered."""
    begin = len(transport.written)
    transport.protocol.data_received(data)
    await settle()
    return bytes(transport.written[begin:])


@pytest.mark.parametrize("data", [GET, LATEST, REGISTER])
def test_the_second_time_it_comes_from_memory(data: bytes) -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        first = await ask(transport, data)
        assert first.startswith(b"HTTP/1.1 200 OK\r\n")
        assert (served.asked, served.front.given) == (1, 0)
        assert await ask(transport, data) == first
        assert await ask(served.connect(), data) == first, "connections share the memory"
        assert (served.asked, served.front.given) == (1, 2)
        assert len({re.sub(r"\[.*?\]", "", line) for line in served.lines}) == 1
        assert len(served.lines) == 3

    asyncio.run(run())


def test_a_change_is_seen_at_once() -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        first = await ask(transport, LATEST)
        served.change()
        assert await ask(transport, LATEST) != first

    asyncio.run(run())


def test_a_change_that_only_the_store_knows_is_seen() -> None:
    """Another process registered a version, and ``latest`` was still answered from memory here."""

    async def run() -> None:
        served = Served()
        transport = served.connect()
        first = await ask(transport, LATEST)

        def confirm(then: Callable[[], None]) -> None:
            served.change()
            then()

        served.confirm = confirm
        assert await ask(transport, LATEST) != first
        assert await ask(transport, GET) == await ask(transport, GET)
        assert served.front.given == 1

    asyncio.run(run())


def test_one_question_to_the_store_is_enough_for_all_that_wait() -> None:
    async def run() -> None:
        served = Served()
        transports = [served.connect() for _ in range(5)]
        first = await ask(transports[0], LATEST)
        questions: list[Callable[[], None]] = []
        served.confirm = questions.append
        for transport in transports:
            transport.written.clear()
            transport.protocol.data_received(LATEST)
        assert not questions, "asked before all that arrived in this turn had been read"
        await settle()
        assert len(questions) == 1
        # What arrives now is not confirmed by a question that was asked before.
        late = served.connect()
        late.protocol.data_received(LATEST)
        await settle()
        assert len(questions) == 2
        questions[0]()
        assert [bytes(transport.written) for transport in transports] == [first] * 5
        assert not late.written
        questions[1]()
        assert bytes(late.written) == first

    asyncio.run(run())


def test_what_is_sent_while_a_request_waits_for_the_store_comes_after_it() -> None:
    """A client sends requests ahead: an answer by id overtook that to ``latest`` before it."""

    async def run() -> None:
        served = Served()
        transport = served.connect()
        latest, by_id = await ask(transport, LATEST), await ask(transport, GET)
        questions: list[Callable[[], None]] = []
        served.confirm = questions.append
        begin = len(transport.written)
        transport.protocol.data_received(LATEST + GET[:20])
        transport.protocol.data_received(GET[20:] + GET)
        await settle()
        assert len(transport.written) == begin
        questions[0]()
        await settle()
        assert bytes(transport.written[begin:]) == latest + by_id + by_id

    asyncio.run(run())


def test_a_connection_that_is_lost_while_it_waits() -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        await ask(transport, LATEST)
        questions: list[Callable[[], None]] = []
        served.confirm = questions.append
        transport.protocol.data_received(LATEST)
        await settle()
        transport.close()
        await settle()
        questions[0]()
        await settle()
        assert (served.asked, served.front.given) == (1, 0)

    asyncio.run(run())


def test_a_server_that_stops_answers_what_waits() -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        first = await ask(transport, LATEST)
        served.confirm = lambda then: None
        begin = len(transport.written)
        transport.protocol.data_received(LATEST)
        await settle()
        protocol: Any = transport.protocol
        protocol.shutdown()
        await settle()
        assert bytes(transport.written[begin:]).endswith(first.partition(b"\r\n\r\n")[2])
        assert transport.closed

    asyncio.run(run())


def test_who_does_not_read_gets_no_more_from_memory() -> None:
    """Answers from memory were put in front of a client that read nothing: 2 kB for 200 bytes that
    it sent, until memory was full."""

    async def run() -> None:
        served = Served()
        transport = served.connect()
        await ask(transport, GET)
        transport.protocol.pause_writing()
        begin = len(transport.written)
        transport.protocol.data_received(GET * 50)
        await settle()
        assert len(transport.written) == begin
        transport.protocol.resume_writing()
        await settle()
        await settle()
        assert transport.written[begin:].count(b"HTTP/1.1 200 OK") == 50

    asyncio.run(run())


@pytest.mark.slow
def test_an_idle_connection_is_closed_though_its_timer_is_not_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        protocol: Any = transport.protocol
        protocol.timeout_keep_alive = 1.0
        await ask(transport, GET)
        for _ in range(4):
            await asyncio.sleep(0.3)
            await ask(transport, GET)
            assert not transport.closed
        await asyncio.sleep(2.5)
        assert transport.closed

    asyncio.run(run())


def test_half_a_request_behind_an_answer_has_its_time() -> None:
    """The clock of a head runs after an answer from memory as well."""

    async def run() -> None:
        served = Served()
        transport = served.connect()
        await ask(transport, GET)
        protocol: Any = transport.protocol
        await ask(transport, GET + GET[:10])
        assert served.front.given == 1
        assert protocol._awaited == "head"
        await ask(transport, GET[10:])
        assert protocol._awaited == ""

    asyncio.run(run())


def test_credentials_are_looked_at_each_time() -> None:
    """A password was changed, and what had been remembered for the old one was still given."""

    async def run() -> None:
        users = OneUser()
        served = Served(users=users)
        transport = served.connect()
        host = b"Host: 127.0.0.1:8081"
        one, other = (
            request(b"GET /schemas/ids/1", (host, b"Authorization: Basic " + name))
            for name in (b"one", b"other")
        )
        for data in (one, one, other, other, GET, GET):
            await ask(transport, data)
        assert (served.asked, served.front.given) == (5, 1), "only one is known without work"
        users.valid[b"Basic one"] = Principal("one", Grants())
        await ask(transport, one)
        assert (served.asked, served.front.given) == (6, 1), "other rights see other answers"
        await ask(transport, one)
        assert (served.asked, served.front.given) == (6, 2)
        users.generation += 1
        await ask(transport, one)
        assert (served.asked, served.front.given) == (7, 2), "rights may have changed"
        users.valid.clear()
        await ask(transport, one)
        assert (served.asked, served.front.given) == (8, 2)

    asyncio.run(run())


@pytest.mark.parametrize(
    "header",
    [
        b"Connection: close",
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue",
        b"Origin: http://evil.example",
        b"Sec-Fetch-Site: cross-site",
        b"X-Forwarded-For: 10.0.0.9",
        b"Accept: text/html",
        b"Accept: */*\r\nAccept: text/html",
        b"X-Long: " + b"a" * 5_000,
    ],
)
def test_what_is_unusual_goes_the_ordinary_way(header: bytes) -> None:
    async def run() -> None:
        served, plain = Served(), Served(plain=True)
        data = request(b"GET /schemas/ids/1", (b"Host: 127.0.0.1:8081", header))
        end = b"0\r\n\r\n" if b"chunked" in header else b""
        for _ in range(3):
            assert await ask(served.connect(), data + end) == await ask(plain.connect(), data + end)
        assert served.front.given == 0

    asyncio.run(run())


def test_a_type_that_does_not_matter_for_one_method_matters_for_another() -> None:
    """GET takes any Content-Type, POST does not: a header block that was served with GET got the
    answer that POST had given to another one."""

    async def run() -> None:
        served, host = Served(), b"Host: 127.0.0.1"
        as_text = (host, b"Content-Type: text/plain", b"Content-Length: 2")
        await ask(served.connect(), request(b"POST /subjects/a", (host,), b"{}"))
        await ask(served.connect(), request(b"GET /subjects/a", as_text) + b"{}")
        refused = await ask(served.connect(), request(b"POST /subjects/a", as_text) + b"{}")
        assert refused.startswith(b"HTTP/1.1 415 ")

    asyncio.run(run())


def test_errors_are_not_remembered() -> None:
    """An id that is not there may be registered in the next moment, in another process."""

    async def run() -> None:
        served = Served()
        transport = served.connect()
        for number in range(3):
            assert (await ask(transport, request(b"GET /no"))).startswith(b"HTTP/1.1 404 ")
            assert served.asked == number + 1

    asyncio.run(run())


def test_a_host_that_is_not_ours_is_refused_from_memory_too() -> None:
    async def run() -> None:
        served = Served()
        transport = served.connect()
        await ask(transport, GET)
        foreign = request(b"GET /schemas/ids/1", (b"Host: evil.example",))
        for _ in range(3):
            assert (await ask(transport, foreign)).startswith(b"HTTP/1.1 421 ")

    asyncio.run(run())


LINES = st.sampled_from(
    [
        *(b"GET /schemas/ids/1", b"GET /schemas/ids/1/", b"GET /schemas/ids/2?a=b", b"GET /no"),
        *(b"GET /subjects/a", b"HEAD /subjects/a", b"POST /subjects/a", b"PUT /subjects/a"),
        *(b"GET http://x/subjects/a", b"GET /subjects/%61", b"get /subjects/a", b"GET /closing"),
    ]
)
HEADERS = st.sampled_from(
    [
        *(b"Accept: application/json", b"Accept: */*", b"Accept: text/html", b"Accept:"),
        *(b"Content-Type: application/json", b"Content-Type: text/plain", b"X-A: b", b"X-A: c"),
        *(b'If-None-Match: "a"', b"Cookie: a", b"User-Agent: a", b'User-Agent: "b"'),
        *(b"Referer: r", b"Authorization: Basic YTpi", b"Connection: close"),
        *(b"Connection: keep-alive", b"Accept-Encoding: gzip", b"Origin: http://a"),
    ]
)
HOSTS = st.sampled_from(
    [b"Host: 127.0.0.1", b"host: localhost:81", b"Host: 127.0.0.1"] * 3 + [b"Host: evil"]
)
BODIES = st.sampled_from([b"", b"", b"{}", b'{"a": 1}', b"[]", b"x" * 70_000])


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Requests that differ in one thing: a header, the body, the line."""
    line, host, body = draw(LINES), draw(HOSTS), draw(BODIES)
    headers = draw(st.lists(HEADERS, max_size=2))
    found = [request(line, (host, *headers), body)]
    for _ in range(draw(st.integers(1, 3))):
        found.append(request(line, (host, *headers, draw(HEADERS)), body))
        found.append(request(line, (host, *headers), draw(BODIES)))
        found.append(request(draw(LINES), (host, *headers), body))
    return found


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(alike(), st.lists(st.integers(0, 20), max_size=12), st.data())
def test_the_front_changes_nothing(
    kinds: list[bytes], order: list[int], data: st.DataObject
) -> None:
    """The same requests, with a front and without: the same bytes come back, and the same lines are
    in the log. Some are sent on the same connection, some in pieces, some several at once."""

    async def run() -> None:
        served, plain = Served(), Served(plain=True)
        ours, reference = served.connect(), plain.connect()
        for number in [*range(len(kinds)), *order]:
            sent = kinds[number % len(kinds)] * data.draw(st.sampled_from((1, 1, 1, 2)))
            cut = data.draw(st.sampled_from((len(sent), len(sent), len(sent), 30)))
            if ours.closed or reference.closed or data.draw(st.integers(0, 5)) == 0:
                ours, reference = served.connect(), plain.connect()
            for piece in (sent[:cut], sent[cut:]):
                if piece:
                    assert await ask(ours, piece) == await ask(reference, piece)
                    assert ours.closed == reference.closed
        assert [re.sub(r"\[.*?\]", "", line) for line in served.lines] == [
            re.sub(r"\[.*?\]", "", line) for line in plain.lines
        ]

    asyncio.run(run())
