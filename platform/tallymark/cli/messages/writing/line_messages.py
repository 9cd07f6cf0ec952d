"""Lines of bytes as messages: the key before a separator, headers before another. Pure.

::

    trace:ab12,tenant:7|member-7:the value      --header-separator '|' --key-separator ':'
    └────── headers ──────┘└─ key ─┘└ value ┘

Headers may also be written as ``consume --show headers`` prints them, ``[["trace","ab12"]]``; and a
whole line may be an object of ``consume --json`` (:func:`from_json`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark.errors import UserError

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes; a line that goes on for longer is no text. What a cluster takes is less (1 MB)."""


class LineMessage(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class LineFormat:
    """``key_separator`` and ``header_separator`` (None: lines have none of it); a value that is
    ``null_value`` is a tombstone (no value)."""

    key_separator: bytes | None = None
    header_separator: bytes | None = None
    null_value: bytes | None = None

    def parse(self, line: bytes) -> LineMessage:
        """Raises ValueError for headers that are none. A line without the key's separator has no
        key."""
        headers: tuple[tuple[str, bytes | None], ...] = ()
        key = None
        if self.header_separator is not None:
            written, found, rest = line.partition(self.header_separator)
            if found:
                headers, line = _headers(written), rest
        if self.key_separator is not None:
            before, found, rest = line.partition(self.key_separator)
            if found:
                key, line = before, rest
        value = None if self.null_value is not None and line == self.null_value else line
        return LineMessage(key, value, headers)


def _headers(written: bytes) -> tuple[tuple[str, bytes | None], ...]:
    if not written:
        return ()
    if written == b"[]" or (written.startswith(b"[[") and written.endswith(b"]]")):
        return _listed(json.loads(written))
    pairs = (part.partition(b":") for part in written.split(b","))
    found = tuple((name.decode(), value if colon else None) for name, colon, value in pairs)
    if any(not name for name, _ in found):
        raise ValueError(f"{written[:60]!r} are no headers: give name:value,name:value")
    return found


def from_json(line: bytes) -> LineMessage:
    """The message of a line of ``consume --json``: its key, value and headers; the stamp, topic and
    offset it had are not those of a new message. ValueError for any other line."""
    document = json.loads(line)
    if not isinstance(document, dict) or "value" not in document:
        raise ValueError("it is no object with a value, as 'tallymark consume --json' prints them")
    return LineMessage(
        _data(document.get("key")), _data(document["value"]), _listed(document.get("headers") or [])
    )


def _listed(pairs: object) -> tuple[tuple[str, bytes | None], ...]:
    if not isinstance(pairs, list):
        raise ValueError("headers are no list")
    found: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"{pair!r} is no header: give [name, value]")
        found.append((pair[0], _data(pair[1])))
    return tuple(found)


def _data(shown: object) -> bytes | None:
    """What commands show of bytes, back: a text, ``{"base64": ...}``, null, or other JSON, which
    stays JSON."""
    if shown is None:
        return None
    if isinstance(shown, str):
        return shown.encode()
    if isinstance(shown, dict) and list(shown) == ["base64"]:
        return base64.b64decode(str(shown["base64"]), validate=True)
    return json.dumps(shown, ensure_ascii=False).encode()


def byte_lines(
    chunks: Iterator[bytes | None], cut_short: Callable[[], bool] = lambda: False
) -> Iterator[bytes | None]:
    """Lines without their ends; None passes through. The last one needs no newline, unless the
    chunks were ``cut_short``: then it is a part of one, and left out."""
    rest = bytearray()
    for chunk in chunks:
        if chunk is None:
            yield None
            continue
        *ended, last = chunk.split(b"\n")
        for piece in ended:
            rest += piece
            yield bytes(rest.removesuffix(b"\r"))
            rest.clear()
        rest += last
        if len(rest) > MAX_LINE:
            raise UserError(f"a line has no end within {MAX_LINE >> 20} MiB", "give lines of text")
    if rest and not cut_short():
        yield bytes(rest.removesuffix(b"\r"))
