"""One connection that answers from memory where it can.

It does so only between two messages: no request is being answered, the parser has read all that
came before, and the client reads what it is sent. All else goes to the parser, as if this class
were not there.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.net.web.access_log import escape, request_field
from tallymark.net.web.http_compiled import CompiledHttp
from tallymark_schema_registry.web.front.front import (
    MAX_BLOCK,
    MAX_BODY,
    Front,
    answer_of,
    key_of,
)
from tallymark_schema_registry.web.front.noted import Noted
from tallymark_schema_registry.web.front.remember import remembered_as
from tallymark_schema_registry.web.metrics.counts import kind_of

_MOST_AT_ONCE: Final = 100
"""Requests of one connection that are answered before others have their turn."""
_MAX_BEHIND: Final = 256 << 10
"""Bytes that are kept of what is sent while a request waits for the store."""


class FrontHttp(CompiledHttp):
    """``front`` is shared by all connections; the other arguments are those of CompiledHttp."""

    def __init__(self, front: Front, *limits: Any, **of_uvicorn: Any) -> None:
        super().__init__(*limits, **of_uvicorn)
        self._front = front
        self._local = ""
        self._logged_host = "-"
        self._waits: bytes | None = None
        self._behind = b""
        self._answered_at = 0.0
        self._noted: Noted | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._local = self.server[0] if self.server else ""
        self._logged_host = escape(self.client[0].encode()) if self.client else "-"

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits, self._noted = None, None
        super().connection_lost(exc)

    # --- requests

    def data_received(self, data: bytes) -> None:
        """Answer what is remembered; the parser gets the rest."""
        if self._waits is not None:
            self._behind += data
            if len(self._behind) > _MAX_BEHIND:
                self.flow.pause_reading()
            return
        at = 0
        for _ in range(_MOST_AT_ONCE):
            used = self._answer_first(data, at, False) if self._is_between_messages() else 0
            at += used
            if at == len(data):
                return
            if not used:
                break
        self._parse_all(data[at:] if at else data)

    def _is_between_messages(self) -> bool:
        cycle = self.cycle
        return (
            (cycle is None or cycle.response_complete)
            and not (self._in_head or self._in_body or self._last or self._unparsed)
            and not (self.flow.write_paused or self.transport.is_closing())
        )

    def _answer_first(self, data: bytes, at: int, confirmed: bool) -> int:
        """Answer the first request in ``data[at:]``, or let it wait for the store: the bytes that
        were used. 0 where the parser has to see it. ``confirmed``: the store has been asked."""
        line_end = data.find(b"\r\n", at)
        end = data.find(b"\r\n\r\n", max(line_end, at))
        if end < 0:
            return 0
        front = self._front
        known = front.known(self._local, data[line_end:end])
        if known is None:
            return 0
        stop = end + 4 + known.facts.length
        if stop > len(data) or known.facts.length > MAX_BODY:
            return 0
        answer = front.memory.get(key_of(known, data[at:line_end], data[end + 4 : stop]))
        if answer is None:
            return 0
        if answer.asks and not confirmed:
            self._wait(data[at:])
            return len(data) - at
        dated = front.dated(self.server_state.default_headers)
        self.transport.write(b"".join((answer.begin, dated, answer.rest)))
        front.note(self._logged_host, known.facts, answer)
        self._answered()
        return stop - at

    def _answered(self) -> None:
        """As after an ordinary answer, but the timer is not begun anew each time."""
        self.server_state.total_requests += 1
        self.wait_for("")
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._arm(self.timeout_keep_alive)

    def _arm(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if nothing was asked for so long."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._waits is not None:
            left = self.timeout_keep_alive
        if left > 0.01:
            self._arm(left)
        else:
            super().timeout_keep_alive_handler()

    # --- waiting for the store

    def _wait(self, data: bytes) -> None:
        self._waits = data
        self.wait_for("")
        self._front.when_confirmed(self._go_on)

    def _go_on(self) -> None:
        data, self._waits = self._waits, None
        if data is None or self.transport.is_closing():
            return
        data, self._behind = data + self._behind, b""
        self.flow.resume_reading()
        used = self._answer_first(data, 0, True) if self._is_between_messages() else 0
        if not used:
            self._parse_all(data)
        elif used < len(data):
            self.data_received(data[used:])

    def shutdown(self) -> None:
        """What waits is answered first."""
        data, self._waits = self._waits, None
        if data is not None:
            super().data_received(data)
        super().shutdown()

    # --- remembering

    def _parse_all(self, data: bytes) -> None:
        """Give ``data`` to the parser. If it is one whole request, its answer may be remembered."""
        before = self.cycle
        could = self._is_between_messages()
        super().data_received(data)
        cycle = self.cycle
        more = self._in_head or self._in_body or self.pipeline or self._unparsed
        if not could or cycle is before or more:
            return
        line = b"%s %s HTTP/1.1" % (self.scope["method"].encode(), self.url)
        end = data.find(b"\r\n\r\n")
        block, body = data[len(line) : end], data[end + 4 :]
        if not data.startswith(line + b"\r\n") or len(body) > MAX_BODY or len(block) > MAX_BLOCK:
            return
        self._noted = Noted(cycle, line, block, body, self._front.memory.changes)

    def on_response_complete(self) -> None:
        """Remember the answer where the route says so."""
        noted, self._noted = self._noted, None
        if noted is not None:
            self._remember(noted)
        self._answered_at = self.loop.time()
        super().on_response_complete()

    def _remember(self, noted: Noted) -> None:
        scope = noted.cycle.scope
        said = remembered_as(scope.get("state", {}))
        if said is None or noted.cycle.chunked_encoding or not noted.cycle.keep_alive:
            return
        known = self._front.learn(self._local, noted.block, list(scope["headers"]))
        if known is None or known.facts.length != len(noted.body):
            return
        sent = noted.sent
        if not sent:
            return
        status, length = int(sent[9:12]), len(sent) - sent.find(b"\r\n\r\n") - 4
        if status >= 400:
            return
        dated = self._front.dated(noted.cycle.default_headers)
        logged = request_field(dict(scope), status, length)
        tally = self._front.counts.tally(kind_of(dict(scope), status))
        answer = answer_of(sent, dated, logged, said, tally)
        if answer is not None:
            self._front.keep(key_of(known, noted.line, noted.body), answer, noted.since)
