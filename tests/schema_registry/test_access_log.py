"""The access-log middleware: the line's format, and that nobody can forge one."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import select
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.net.web import access_log
from tallymark.net.web.access_log import (
    MAX_FIELD,
    AccessLog,
    AccessLogFile,
    Message,
    combined_line,
    escape,
)

SCOPE: dict[str, Any] = {
    "type": "http",
    "method": "GET",
    "path": "/a b",
    "raw_path": b"/a%20b",
    "query_string": b"q=1",
    "http_version": "1.1",
    "client": ("10.0.0.1", 5),
    "headers": [(b"referer", b"http://x/"), (b"user-agent", b'curl "8"')],
}
COMBINED = re.compile(
    r'\S+ - \S+ \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)'
    r' "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"'
)


def test_the_line() -> None:
    assert combined_line(SCOPE, 1_445_507_736.9, 200, 12) == (
        '10.0.0.1 - - [22/Oct/2015:09:55:36 +0000] "GET /a%20b?q=1 HTTP/1.1" 200 12 '
        '"http://x/" "curl \\"8\\""'
    )


def test_the_user_and_what_is_missing() -> None:
    secret = base64.b64encode(b"ann lee:geheim")
    scope = {**SCOPE, "client": None, "headers": [(b"authorization", b"Basic " + secret)]}
    line = combined_line(scope, 0, 304, 0)
    assert line.startswith("- - ann\\x20lee [01/Jan/1970:00:00:00 +0000] ")
    assert line.endswith('" 304 - "-" "-"')


@settings(max_examples=30, deadline=None)
@given(st.binary(), st.binary(), st.binary(max_size=30))
def test_no_request_can_forge_a_line(path: bytes, agent: bytes, credentials: bytes) -> None:
    headers = [(b"user-agent", agent), (b"authorization", b"Basic " + credentials)]
    line = combined_line({**SCOPE, "raw_path": path or b"/", "headers": headers}, 0, 200, 1)
    assert COMBINED.fullmatch(line)


def test_a_field_is_bounded() -> None:
    assert len(escape(b"x" * 1_000_000)) == MAX_FIELD


def run(app: Any, lines: list[str], method: str = "GET") -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {**SCOPE, "method": method}
    asyncio.run(AccessLog(app, lines.append, lambda: 0.0)(scope, receive, send))
    return sent


def test_status_and_size_are_those_of_the_response() -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 206, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"de"})

    lines: list[str] = []
    assert len(run(app, lines)) == 3
    assert " 206 5 " in lines[0]


def test_no_bytes_are_sent_for_head() -> None:
    """The application may give the body that GET would have; the server leaves it out."""

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc"})

    lines: list[str] = []
    run(app, lines, "HEAD")
    assert " 200 - " in lines[0]


def test_a_request_that_fails_is_logged() -> None:
    async def app(scope: Message, receive: Any, send: Any) -> None:
        raise RuntimeError("bug")

    lines: list[str] = []
    with pytest.raises(RuntimeError, match="bug"):
        run(app, lines)
    assert " 500 - " in lines[0]


def test_a_full_disk_drops_lines_and_no_requests() -> None:
    log = AccessLogFile(Path("/dev/full"))
    log("a line")
    log("another")
    assert log.dropped == 2
    log.close()


def test_lines_of_one_turn_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request cost a system call for its line, a third of an answer from memory."""
    writes = counted_writes(monkeypatch)
    monkeypatch.setattr(access_log, "GATHER_SECONDS", 0.5)

    async def run() -> None:
        for turn in range(3):
            for number in range(20):
                log(f"{turn} {number}")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(writes) == 1, "the first line does not wait, the others do"
        await asyncio.sleep(1.5)
        assert len(writes) == 2
        for number in range(1000):
            log(f"3 {number}")
        assert len(writes) == 5, "what is gathered is bounded"

    log = AccessLogFile(tmp_path / "a.log")
    asyncio.run(run())
    log.close()
    expected = [f"{turn} {number}" for turn in range(3) for number in range(20)]
    expected += [f"3 {number}" for number in range(1000)]
    assert (tmp_path / "a.log").read_text().splitlines() == expected


def test_a_pipe_takes_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes write to one pipe: what is longer than it takes at once may be mixed."""
    reading, writing = os.pipe()
    log = AccessLogFile(Path(f"/dev/fd/{writing}"))
    writes = counted_writes(monkeypatch)

    async def run() -> None:
        for _ in range(5):
            log("x" * 2_000)
        await asyncio.sleep(0.01)

    asyncio.run(run())
    log.close()
    assert max(writes) <= select.PIPE_BUF
    assert os.read(reading, 20_000) == (b"x" * 2_000 + b"\n") * 5
    os.close(writing)
    os.close(reading)


def test_a_full_disk_drops_what_was_gathered(tmp_path: Path) -> None:
    async def run() -> None:
        for _ in range(7):
            log("a line")
        await asyncio.sleep(0.01)

    log = AccessLogFile(Path("/dev/full"))
    asyncio.run(run())
    assert log.dropped == 7
    log.close()


def counted_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all writes from now on."""
    sizes: list[int] = []
    write = os.write

    def counted(fd: int, data: bytes) -> int:
        sizes.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    return sizes


def test_a_log_that_cannot_be_opened_is_said() -> None:
    with pytest.raises(UserError, match="cannot write the access log"):
        AccessLogFile(Path("/dev/null/access.log"))
