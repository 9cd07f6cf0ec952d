"""Two HTTP parsers in turn read the same requests, or one of them refuses.

h11 serves where httptools is not installed. A request that each reads differently is how a client
hides one request in another ("request smuggling").
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from http_in_memory import MemoryTransport, connect, serve, settle
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tallymark.net.web.connection_bounds import BoundedConnection
from tallymark.net.web.http_pure import PureHttp

pytest.importorskip("httptools")
from tallymark.net.web.http_compiled import MAX_HEAD, CompiledHttp

GET = b"GET /a?b=1 HTTP/1.1\r\nHost: a\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
LENGTH = b"Content-Length: 3\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
REFUSED = b"HTTP/1.1 400 Bad Request\r\n"


def chunked(rest: bytes) -> bytes:
    return POST + b"Transfer-Encoding: chunked\r\n\r\n" + rest


AMBIGUOUS = {
    "length and encoding": POST
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "encoding and length": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "one length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "a hexadecimal length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "an empty length": POST + b"Content-Length: \r\n\r\nabc",
    "a huge length": POST + b"Content-Length: 99999999999999999999\r\n\r\nabc",
    "two encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
    "chunked, chunked": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "nearly chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked, oddly": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 3\r\n\r\nabc",
    "a header in two lines": POST + b"X: a\r\n b\r\n\r\n",
    "an encoding in two lines": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "lines that end with LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "one line that ends with LF": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "lines that end with CR": b"GET / HTTP/1.1\rHost: a\r\r",
    "a CR in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: b\x00c\r\n\r\n",
    "a NUL in a name": b"GET / HTTP/1.1\r\nHost: a\r\nX\x00: b\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tab in the target": b"GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
    "other bytes in the target": b"GET /\xc3\xa9?\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
    "version 0.9": b"GET /\r\n\r\n",
    "version 0.9, said": b"GET / HTTP/0.9\r\nHost: a\r\n\r\n",
    "version 1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another protocol": b"DESCRIBE / RTSP/1.0\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"XYZ / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a chunk without a size": chunked(b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a signed size": chunked(b"+3\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a prefix": chunked(b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a space before": chunked(b" 3\r\nabc\r\n0\r\n\r\n"),
    "a chunk with a huge size": chunked(b"fffffffffffffffff3\r\nabc\r\n0\r\n\r\n"),
    "a chunk that ends with LF": chunked(b"3\nabc\r\n0\r\n\r\n"),
    "a chunk that is longer": chunked(b"3\r\nabcd\r\n0\r\n\r\n"),
    "an extension with LF": chunked(b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "a trailer without a colon": chunked(b"0\r\nX\r\n\r\n"),
    "an upgrade with chunks": POST
    + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(request_bytes: bytes) -> None:
    """The compiled parser served a request whose header was in two lines as another one than h11,
    and took trailers as headers. What follows is never read as a request."""
    for pieces in ([request_bytes + NEXT], [bytes((byte,)) for byte in request_bytes + NEXT]):
        served = serve(CompiledHttp, pieces)
        assert served.answers.startswith(REFUSED)
        assert served.answers.count(b"HTTP/1.1") == 1
        assert served.closed
        assert [one for one in served.asked if one.raw_path == b"/next"] == []


SERVED = {
    "plain": GET,
    "two": GET + NEXT,
    "a body": POST + b"Content-Length: 3\r\n\r\nabc" + NEXT,
    "chunks": chunked(b"3\r\nabc\r\n2;a=b\r\nde\r\n0\r\nX-Trailer: a\r\n\r\n") + NEXT,
    "absolute": b"GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /a#b?c HTTP/1.1\r\nHost: a\r\n\r\n",
    "an asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "slashes": b"GET //a//b HTTP/1.1\r\nHost: a\r\n\r\n",
    "spaces around a value": b"GET / HTTP/1.1\r\nHost:  a \t\r\nX:\r\n\r\n" + NEXT,
    "upgrade": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + NEXT,
    "upgrade with a body": POST
    + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 34\r\n\r\n"
    + NEXT[:34]
    + NEXT,
    "1.0": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + NEXT,
    "closing": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + NEXT,
}


@pytest.mark.parametrize("request_bytes", SERVED.values(), ids=SERVED)
def test_both_parsers_read_the_same(request_bytes: bytes) -> None:
    """A trailer of a request became one of its headers; a body behind ``Upgrade`` was dropped."""
    expected = serve(PureHttp, [request_bytes])
    assert expected.asked
    for pieces in ([request_bytes], [bytes((byte,)) for byte in request_bytes]):
        for together in (True, False):
            served = serve(CompiledHttp, pieces, together)
            assert served.asked == expected.asked
            assert served.closed == expected.closed


_PIECES = st.sampled_from(
    [
        *(GET, NEXT, POST, b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b"\x0b", b":"),
        *(b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"content-length:5\r\n", b"abc"),
        *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"3\r\nabc\r\n"),
        *(b"0\r\n\r\n", b"0\r\n", b";a=b", b"X: y\r\n", b"X: y\r\n z\r\n", b"Host: b\r\n", b"a"),
        *(
            b"Connection: close\r\n",
            b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
            b"\xe9",
            b"#",
            b"?",
        ),
        *(b"GET / HTTP/1.0\r\n", b"HEAD / HTTP/1.1\r\nHost: a\r\n", b"Expect: 100-continue\r\n"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES, min_size=1, max_size=10), st.integers(1, 40))
@example([POST, b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Content-Length: 3\r\n", b"\r\n"], 7)
@pytest.mark.slow
def test_no_bytes_are_two_requests(parts: list[bytes], size: int) -> None:
    """What the compiled parser serves, h11 serves as the same request; and how the bytes are cut
    does not matter. Empty lines before a request are left out: h11 refuses them, and the compiled
    parser skips them, as RFC 9112 asks for."""
    data = b"".join(parts)
    assume(not re.search(rb"(?:^|\r\n\r\n)[\r\n]", data))
    reference = serve(PureHttp, [data])
    whole = serve(CompiledHttp, [data])
    assert whole.asked == reference.asked[: len(whole.asked)]
    if len(whole.asked) < len(reference.asked):
        assert whole.closed
    cut = serve(CompiledHttp, [data[at : at + size] for at in range(0, len(data), size)])
    assert (cut.asked, cut.closed) == (whole.asked, whole.closed)


def test_a_refusal_comes_after_the_answers_before_it() -> None:
    """The 400 for a bad request was written before the answer to the good one ahead of it."""
    served = serve(CompiledHttp, [GET + NEXT + b"no request\r\n\r\n" + NEXT])
    assert [one.raw_path for one in served.asked] == [b"/a", b"/next"]
    assert served.answers.count(b" 200 OK\r\n") == 2
    assert served.answers.index(REFUSED) > served.answers.rindex(b" 200 OK\r\n")
    assert served.closed


@pytest.mark.parametrize(
    "endless",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * MAX_HEAD,
        b"GET /" + b"a" * MAX_HEAD,
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * (MAX_HEAD // 6),
        chunked(b"0\r\nX: " + b"a" * MAX_HEAD),
        chunked(b"0\r\n" + b"X: a\r\n" * (MAX_HEAD // 6 + 1)),
        chunked(b"3;" + b"a" * MAX_HEAD),
        b"\r\n" * (MAX_HEAD // 2),
    ],
    ids=["a header", "the target", "headers", "a trailer", "trailers", "an extension", "nothing"],
)
def test_a_head_is_bounded(endless: bytes) -> None:
    """The compiled parser keeps a header, however long: 1 GiB of one header was 1 GiB of memory."""
    assert not serve(CompiledHttp, [endless]).asked
    assert serve(CompiledHttp, [endless, b"a" * 2048]).closed


def test_many_requests_at_once_do_not_wait_as_objects() -> None:
    """256 KiB of small requests are 9,000; each took 3 kB while the first one was answered."""
    waiting = 0

    class Watched(CompiledHttp):
        def on_headers_complete(self) -> None:
            nonlocal waiting
            super().on_headers_complete()
            waiting = max(waiting, len(self.pipeline))

    served = serve(Watched, [b"GET / HTTP/1.1\r\nHost:a\r\n\r\n" * 10])
    assert len(served.asked) == 10
    serve(Watched, [b"GET / HTTP/1.1\r\nHost:a\r\n\r\n" * 9_000])
    assert waiting < 50


def test_empty_lines_before_a_request_are_skipped() -> None:
    assert len(serve(CompiledHttp, [b"\r\n" + GET + b"\r\n" + NEXT]).asked) == 2


@pytest.mark.parametrize("http", [PureHttp, CompiledHttp])
def test_a_response_without_a_length_in_version_1_0(http: type[BoundedConnection]) -> None:
    """It was sent in chunks, which HTTP/1.0 does not have."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"de"})

    async def run() -> MemoryTransport:
        transport = connect(http, app)
        transport.protocol.data_received(b"GET / HTTP/1.0\r\n\r\n")
        await settle()
        return transport

    transport = asyncio.run(run())
    assert transport.written.endswith(b"\r\n\r\nabcde")
    assert b"chunked" not in transport.written
    assert transport.closed


def test_an_application_that_does_not_read_gets_the_next_request() -> None:
    """The body is dropped as it comes, and what follows it is a request."""

    asked = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> MemoryTransport:
        transport = connect(CompiledHttp, app)
        transport.protocol.data_received(POST + b"Content-Length: 3000\r\n\r\n")
        await settle()
        assert transport.written.count(b" 413 ") == 1
        transport.protocol.data_received(b"a" * 3000 + GET)
        await settle()
        return transport

    assert asyncio.run(run()).written.count(b" 413 ") == 2
    assert asked == 2


def test_an_error_in_a_body_ends_the_request() -> None:
    """The application waited for the rest of the body for ever."""
    served = serve(CompiledHttp, [chunked(b"3\r\nabc\r\n"), b"no chunk"], together=False)
    assert not served.asked
    assert served.answers.startswith(REFUSED)
    assert served.closed
