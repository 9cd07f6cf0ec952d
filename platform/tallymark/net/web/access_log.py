"""An access log in Apache's combined format around any ASGI application.

One line per request, when its response has ended::

    host - user [10/Oct/2026:13:55:36 +0000] "GET /path?q HTTP/1.1" 200 2326 "referer" "agent"

Every log tool reads this format, and the stack publishes these lines about itself as events. The
time is that of the request's arrival, in UTC. Text that a client chooses is escaped as in Apache
(``\\"``, ``\\\\``, ``\\xhh``), so no request can forge a line or break one. Status 500 stands for a
response that never began.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import fcntl
import logging
import os
import select
import stat
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.log_rotation import LOG_BYTES, renamed
from tallymark.private_files import log_opener

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_FIELD: Final = 1024
"""Bytes of one field before escaping, which can make four bytes of one; the rest is cut off, so a
line has a bounded length: about 20 kB."""
GATHER_SECONDS: Final = 0.05
_GATHERED_LINES: Final = 256
_LOOK_BYTES: Final = 64 * 1024
"""Bytes written between two checks of the file's length."""

# A table, since strftime's %b depends on the locale and a log must not.
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_SAFE: Final = {byte: chr(byte) for byte in range(0x20, 0x7F)} | {0x22: '\\"', 0x5C: "\\\\"}
_ESCAPED: Final = [_SAFE.get(byte, f"\\x{byte:02x}") for byte in range(256)]

USER: Final = "tallymark.user"
"""Where a server that knows its users puts the user, an object with a ``name``, into the scope."""

_log = logging.getLogger(__name__)


class AccessLogFile:
    """Appends lines to a file. Several processes may share it, and a reader that follows the file
    never sees half a line for long: whole lines are written at once. A file that has grown long is
    renamed (:mod:`tallymark.log_rotation`); the other processes notice that its name is now another
    file.

    In an event loop the first line is written at the end of the turn, and further ones together,
    at most :data:`GATHER_SECONDS` later: that is what a killed process loses. Elsewhere each line
    is written at once.

    A line that cannot be written (disk full) is dropped and counted in ``dropped``: a log must not
    fail the request it describes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = self._open()
        except OSError as error:
            raise UserError(
                f"cannot write the access log {path}: {error.strerror}", "name another file"
            ) from error
        self._unlooked = 0
        self._lines: list[str] = []
        self._written_s = 0.0
        self.dropped = 0

    def __call__(self, line: str) -> None:
        """Write a line, without its end, in ASCII. From one thread."""
        lines = self._lines
        lines.append(line)
        if len(lines) > 1:
            if len(lines) >= _GATHERED_LINES:
                self.flush()
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        wait_s = self._written_s + GATHER_SECONDS - loop.time()
        if wait_s > 0:
            loop.call_later(wait_s, self._flush_of, loop)
        else:
            loop.call_soon(self._flush_of, loop)

    def flush(self) -> None:
        """Write what is gathered."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            if self._unlooked >= _LOOK_BYTES:
                self._unlooked = 0
                self._rotate()
            self._write(lines)
        except OSError as error:
            if self.dropped == 0:
                _log.error("the access log %s cannot be written: %s", self._path, error.strerror)
            self.dropped += len(lines)

    def close(self) -> None:
        """Write what is gathered, and close the file. Idempotent."""
        if self._fd < 0:
            return
        self.flush()
        fd, self._fd = self._fd, -1
        os.close(fd)

    def _flush_of(self, loop: asyncio.AbstractEventLoop) -> None:
        self._written_s = loop.time()
        self.flush()

    def _write(self, lines: list[str]) -> None:
        """One write for all lines; for a pipe as many as it takes at once, lest they be mixed with
        those of other processes."""
        data = "\n".join([*lines, ""]).encode("ascii")
        self._unlooked += len(data)
        if len(data) <= select.PIPE_BUF or stat.S_ISREG(os.fstat(self._fd).st_mode):
            _write_whole(self._fd, data)
            return
        for line in lines:
            _write_whole(self._fd, line.encode("ascii") + b"\n")

    def _open(self) -> int:
        return log_opener(str(self._path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _rotate(self) -> None:
        """Rotate the file if it is long, or open the new one if another process has rotated it."""
        ours = os.fstat(self._fd)
        if not stat.S_ISREG(ours.st_mode):  # a pipe, a terminal
            return
        fcntl.flock(
            self._fd, fcntl.LOCK_EX
        )  # only one of the processes that share the file rotates it
        try:
            try:
                theirs = os.stat(self._path)
            except FileNotFoundError:
                theirs = None
            if theirs is not None and os.path.samestat(ours, theirs):
                if ours.st_size <= LOG_BYTES:
                    return
                renamed(self._path)
            new = self._open()
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        old, self._fd = self._fd, new
        os.close(old)


class AccessLog:
    """ASGI middleware. ``write`` is called with a finished line (:class:`AccessLogFile`, a list's
    append); ``now`` returns seconds since the epoch."""

    def __init__(
        self, app: App, write: Callable[[str], None], now: Callable[[], float] = time.time
    ) -> None:
        self._app = app
        self._write = write
        self._now = now

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._now()
        status, size = 500, 0

        async def counting(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body" and scope["method"] != "HEAD":
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            self._write(combined_line(scope, began, status, size))


def combined_line(scope: Message, time_s: float, status: int, size: int) -> str:
    """The line of one request. ``size`` is the body's bytes; none is written as ``-``."""
    headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
    client = scope.get("client")
    host = escape(client[0].encode()) if client else "-"
    return (
        f"{host} - {_logged_in(scope) or user_of(headers)} [{clf_time(time_s)}] "
        f"{request_field(scope, status, size)} {client_field(headers)}"
    )


def _logged_in(scope: Message) -> str:
    """The user whose log-in the server accepted, if it says so; else ""."""
    name = str(getattr(scope.get(USER), "name", ""))
    return escape(name.encode(errors="replace")).replace(" ", "\\x20")


def request_field(scope: Message, status: int, size: int) -> str:
    """The request and its response: ``"GET /path HTTP/1.1" 200 12``."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    if scope.get("query_string") and b"?" not in path:
        path += b"?" + scope["query_string"]
    return (
        f'"{escape(scope["method"].encode())} {escape(path)} '
        f'HTTP/{escape(scope.get("http_version", "1.1").encode())}" '
        f"{status} {size or '-'}"
    )


def client_field(headers: dict[bytes, bytes]) -> str:
    """What the client says of itself: ``"referer" "agent"``."""
    return f'"{escape(headers.get(b"referer", b"-"))}" "{escape(headers.get(b"user-agent", b"-"))}"'


def escape(value: bytes) -> str:
    """``value`` as printable ASCII; all other bytes are escaped."""
    return _escaped(value[:MAX_FIELD])


@lru_cache(maxsize=1024)
def _escaped(value: bytes) -> str:
    return "".join([_ESCAPED[byte] for byte in value])


def clf_time(time_s: float) -> str:
    """``10/Oct/2026:13:55:36 +0000``, UTC."""
    return _clf_second(int(time_s))


@lru_cache(maxsize=4)
def _clf_second(second: int) -> str:
    utc = time.gmtime(second)
    return (
        f"{utc.tm_mday:02}/{_MONTHS[utc.tm_mon * 3 - 3 : utc.tm_mon * 3]}/{utc.tm_year}:"
        f"{utc.tm_hour:02}:{utc.tm_min:02}:{utc.tm_sec:02} +0000"
    )


def _write_whole(fd: int, data: bytes) -> None:
    """A disk that is nearly full takes a part; the next try says that it is full."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def user_of(headers: dict[bytes, bytes]) -> str:
    """The name of HTTP Basic credentials, never the password."""
    scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"basic":
        return "-"
    try:
        name = base64.b64decode(value, validate=True).partition(b":")[0]
    except (binascii.Error, ValueError):
        return "-"
    # A space would shift every field after it.
    return escape(name).replace(" ", "\\x20") or "-"
