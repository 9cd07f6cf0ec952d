"""``consume --format``: a message as kcat's ``-f`` prints it. Pure.

::

    %s value     %S its length, -1 for null     %t topic        %% a percent sign
    %k key       %K its length, -1 for null     %p partition    and newlines, tabs, bytes as in C
    %h headers   name=value,name=value          %o offset
    %T time      ms since 1970
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tallymark.cli.messages.reading.records import Shown
from tallymark.client.producing.stamps import STAMP_HEADER
from tallymark.errors import UserError

_PART: Final = re.compile(r"%.|\\x[0-9a-fA-F]{2}|\\[ntr\\]|%$", re.DOTALL)
_ESCAPES: Final = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\\\": b"\\", "%%": b"%"}
Part = Callable[[Shown], bytes]


def parse_format(text: str, value_of: Part = lambda message: bytes(message.value or b"")) -> Part:
    """How a message becomes bytes; ``value_of`` makes those of its value. UserError names a ``%X``
    that is none."""
    parts: list[bytes | Part] = []
    end = 0
    for found in _PART.finditer(text):
        parts.append(text[end : found.start()].encode())
        parts.append(_part(found[0], value_of))
        end = found.end()
    parts.append(text[end:].encode())

    def shown(message: Shown) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in parts)

    return shown


def _part(written: str, value_of: Part) -> bytes | Part:
    if written in _ESCAPES:
        return _ESCAPES[written]
    if written.startswith("\\x"):
        return bytes([int(written[2:], 16)])
    if written == "%s":
        return value_of
    if written not in _FIELDS:
        known = ", ".join(["%s", *_FIELDS, "%%"])
        raise UserError(f"--format: {written!r} is not known", f"give some of {known}")
    return _FIELDS[written]


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(message: Shown) -> bytes:
    shown = (
        name.encode() + b"=" + (b"NULL" if value is None else bytes(value))
        for name, value in message.headers
        if name != STAMP_HEADER
    )
    return b",".join(shown)


_FIELDS: Final[dict[str, Part]] = {
    "%k": lambda message: bytes(message.key or b""),
    "%t": lambda message: message.topic.encode(),
    "%p": lambda message: b"%d" % message.partition,
    "%o": lambda message: b"%d" % message.offset,
    "%T": lambda message: b"%d" % message.timestamp,
    "%h": _headers,
    "%S": lambda message: _length(message.value),
    "%K": lambda message: _length(message.key),
}
