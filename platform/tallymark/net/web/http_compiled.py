"""HTTP/1.1 read by httptools, whose parser is compiled C: about a third of the time of h11.

The parser is fast because it hands over what it finds as it goes. What uvicorn's protocol and the
parser leave open is closed here::

    the head, trailers, sizes of chunks   bounded: 64 KiB without progress are refused
    requests sent ahead (pipelining)      read a few at a time, the rest waits as bytes
    a request that is none, behind them   refused after they are answered
    Upgrade                               ignored, as RFC 9110 allows; the body is read as one
    what parsers read differently         refused (:mod:`.strict_requests`)
    trailers                              read and dropped, never headers
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tallymark.net.web.access_log import Message
from tallymark.net.web.connection_bounds import BoundedConnection
from tallymark.net.web.strict_requests import fault

MAX_HEAD: Final = 64 * 1024
"""Bytes, as h11 allows."""
_PIECE: Final = 1024
"""Bytes given to the parser at a time where requests may begin in them: so few can wait at once."""
_NO_REQUEST: Final = "Invalid HTTP request received."


class CompiledHttp(BoundedConnection, HttpToolsProtocol):
    """One connection."""

    parser: httptools.HttpRequestParser

    def __init__(self, *limits: Any, **of_uvicorn: Any) -> None:
        super().__init__(*limits, **of_uvicorn)
        self._in_head = False
        self._in_body = False
        self._body_left = 0
        self._upgraded_body = False
        self._without_progress = 0
        self._unparsed = b""
        self._last = False
        self._invalid = False

    # --- bytes

    def data_received(self, data: bytes) -> None:
        """Feed the parser, which starts what is complete."""
        self._unset_keepalive_if_required()
        if self._last:
            return
        if self._unparsed:
            self._unparsed += data
            self.flow.pause_reading()
            return
        self._feed(data)
        if not self.transport.is_closing():
            self.wait_for(self._client_owes())

    def _client_owes(self) -> str:
        """The part of a request that the client has not sent yet."""
        if self._in_body:
            return "body"
        return "" if self._is_answering() else "head"

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _feed(self, data: bytes) -> None:
        view, at = memoryview(data), 0
        try:
            while at < len(data) and not self._last:
                if self.pipeline:
                    self._unparsed = data[at:]
                    self.flow.pause_reading()
                    return
                at += self._parse(view[at : at + max(_PIECE, self._body_left)])
                if self._without_progress > MAX_HEAD:
                    raise httptools.HttpParserError("too much without progress")
        except httptools.HttpParserError:
            self._refuse()

    def _parse(self, piece: memoryview) -> int:
        """The bytes that were read: all, but where a client asks for another protocol."""
        if self._upgraded_body:
            return self._parse_upgraded(piece)
        self._without_progress += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # The parser stops behind the head, whatever Content-Length says.
            read = int(upgrade.args[0])
            if self._body_left:
                self._upgraded_body = True
            return read
        return len(piece)

    def _parse_upgraded(self, piece: memoryview) -> int:
        part = bytes(piece[: self._body_left])
        self.on_body(part)
        if not self._body_left:
            self._upgraded_body = False
            self._end_of_message()
        return len(part)

    def _refuse(self) -> None:
        """No request can be found in what follows. Those before it are answered first."""
        self._last = self._invalid = True
        cycle = self.cycle
        if self._in_body:
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()  # it was not begun
            elif cycle.response_started:
                self.transport.close()
                return
            else:
                cycle.disconnected = True
                cycle.message_event.set()
                self._send_refusal()
                return
        if not self._is_answering():
            self._send_refusal()

    def _send_refusal(self) -> None:
        self.logger.warning(_NO_REQUEST)
        self.send_400_response(_NO_REQUEST)

    # --- what the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else a trailer
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        method = self.parser.get_method().decode("ascii")
        version = self.parser.get_http_version()
        wrong = fault(method, self.url, version, self.headers)
        upgrade = self.parser.should_upgrade()
        given = dict(self.headers)
        if wrong is not None or (upgrade and b"transfer-encoding" in given):
            raise ValueError(wrong)  # reported by the parser as its own error
        self._in_head, self._in_body = False, True
        self._body_left = int(given.get(b"content-length", b"0"))
        self._without_progress = 0
        self._unset_keepalive_if_required()
        raw_path, _, query = self.url.partition(b"?")
        self.scope["method"] = method
        self.scope["http_version"] = version
        self.scope["path"] = unquote(raw_path.decode("ascii"))
        self.scope["raw_path"] = raw_path
        self.scope["query_string"] = query
        self._begin(version != "1.0" and self.parser.should_keep_alive())

    def _begin(self, keep_alive: bool) -> None:
        waits = self._is_answering()
        app: Any = self.app
        kind = RequestResponseCycle if self.scope["http_version"] == "1.1" else _UntilClosed
        self.cycle = kind(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        if waits:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, app))
        else:
            task = self.loop.create_task(self.cycle.run_asgi(app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def on_body(self, body: bytes) -> None:
        self._without_progress = 0
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Called by the parser at each size of a chunk."""
        self._without_progress = 0

    def on_message_complete(self) -> None:
        if not (self.parser.should_upgrade() and self._body_left):
            self._end_of_message()

    def _end_of_message(self) -> None:
        self._in_body = False
        self._without_progress = 0
        self._last = self._last or not self.cycle.keep_alive
        super().on_message_complete()

    # --- answers

    def on_response_complete(self) -> None:
        """Go on with what was sent ahead."""
        super().on_response_complete()
        if self.transport.is_closing() or self.pipeline:
            return
        if self._unparsed:
            data, self._unparsed = self._unparsed, b""
            self._feed(data)
        elif self._invalid and not self._is_answering():
            self._send_refusal()


class _UntilClosed(RequestResponseCycle):
    """HTTP/1.0 has no chunks: a response without a length ends where the connection does."""

    _without_length = False

    async def send(self, message: Message) -> None:  # type: ignore[override]
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            self._without_length = b"content-length" not in names
            if self._without_length:
                self.chunked_encoding = False
        elif self._without_length and self.scope["method"] != "HEAD":
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)  # type: ignore[arg-type]
