"""Rows of Apache's and nginx's access logs, common and combined format.

::

    host identity user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 512 "referer" "agent"
    └──────────────────────────────── common ────────────────────────────┘└── combined ──────┘

Texts stay as they were logged: what the server escaped (``\\"``, ``\\xhh``) stays escaped.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tallymark.publishing.reading.rows import Bad, Line, Lines, Row, Rows
from tallymark.shell.times import clf_time_ms

_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_LINE: Final = re.compile(
    r"(\S+) (\S+) (.{1,1024}?) \[([^\]]{1,64})\] "
    + _QUOTED
    + r" (\d{3}) (\d{1,18}|-)"
    + rf"(?: {_QUOTED} {_QUOTED})?\s*"
)
_REQUEST: Final = re.compile(r"([A-Z_-]{1,32}) (\S+) (HTTP/\d(?:\.\d)?)")
_TEXT_OR_NULL: Final = ["null", "string"]


def _optional(name: str, kind: str, doc: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "doc": doc}


SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "AccessLogEntry",
    "namespace": "tallymark.sources",
    "doc": "One request, as a web server logged it.",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "host", "type": "string", "doc": "who asked: address or name"},
        _optional("identity", "string", "by identd"),
        _optional("user", "string", "by HTTP authentication"),
        _optional("method", "string", "GET, POST, ..."),
        _optional("path", "string", "path and query, as sent"),
        _optional("protocol", "string", "HTTP/1.1, ..."),
        _optional("request", "string", "the request line, where it is not METHOD PATH PROTOCOL"),
        {"name": "status", "type": "int"},
        _optional("bytes", "long", "size of the body; null: there was none"),
        _optional("referer", "string", ""),
        _optional("user_agent", "string", ""),
    ],
}


def is_access_log(text: str) -> bool:
    """Whether a line is one of an access log."""
    return _LINE.fullmatch(text) is not None


def access_log_rows(lines: Lines) -> Rows:
    """Rows of :data:`SCHEMA`, each with its own time. Blank lines are skipped."""
    for line in lines:
        if isinstance(line, Line):
            if line.text.strip():
                yield _row(line)
        else:
            yield line


def _row(line: Line) -> Row | Bad:
    match = _LINE.fullmatch(line.text)
    if not match:
        return Bad(line.number, _why_not(line.text), line.text)
    host, identity, user, time, request, status, size, referer, agent = match.groups()
    try:
        time_ms = clf_time_ms(time)
    except ValueError as error:
        return Bad(line.number, str(error), line.text)
    parts = _REQUEST.fullmatch(request)
    method, path, protocol = parts.groups() if parts else (None, None, None)
    values = {
        "time": time_ms,
        "host": host,
        "identity": _dash(identity),
        "user": _dash(user),
        "method": method,
        "path": path,
        "protocol": protocol,
        "request": None if parts else request,
        "status": int(status),
        "bytes": None if size == "-" else int(size),
        "referer": _dash(referer),
        "user_agent": _dash(agent),
    }
    return Row(line.number, time_ms, values, line.text)


def _dash(text: str | None) -> str | None:
    """Servers write ``-`` for what is not there."""
    return None if text == "-" else text


def _why_not(text: str) -> str:
    if len(re.findall(r'(?<!\\)"', text)) % 2:
        return "a quote is not closed: the line is cut off, or two lines are one"
    return "the line is not of the common or combined format"
