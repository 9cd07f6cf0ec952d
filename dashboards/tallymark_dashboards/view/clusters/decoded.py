"""The bytes of a key or a value as a person reads them: decoded Avro, JSON, text, else hex. Pure.

Where fields of the topic are masked, only what could be decoded is shown: neither text nor hex
would hide anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from tallymark_dashboards.view.clusters.masks import Masks

Kind = Literal["null", "empty", "avro", "json", "text", "hex", "hidden"]
MOST: Final = 20_000
"""Characters of one value that are shown."""
HEX: Final = 512
"""Bytes that are shown as hex."""
FRAME: Final = 5
"""Bytes before a value that say its schema (:mod:`tallymark.serialization.frame`)."""
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Shown:
    """``text`` for a ``<pre>``; ``note``: what else is to be said. ``size`` in bytes."""

    kind: Kind
    text: str
    size: int
    note: str = ""


Decode = Callable[[bytes], tuple[Any, str]]
"""(value, note) of bytes that begin as Avro messages do. ValueError: why they are none."""


def shown(
    data: bytes | None,
    decode: Decode | None = None,
    masks: Masks | None = None,
    most: int = MOST,
) -> Shown:
    """The bytes for people, at most so many characters. ``decode``: None where they are no Avro
    message."""
    masks = masks or Masks()
    if data is None:
        return Shown("null", "", 0, "it deletes its key in a compacted topic")
    if not data:
        return Shown("empty", "", 0, "no bytes")
    note = ""
    if decode is not None:
        try:
            value, note = decode(data)
            return _tree("avro", value, data, masks, note, most)
        except (ValueError, RecursionError) as error:
            # The reason may repeat a part of the value.
            note = "not decoded" if masks else str(error) or "it is nested too deeply"
    tree = _json(data)
    if tree is None and decode is not None:
        tree = _json(data[FRAME:])  # written with a JSON Schema: the same frame around JSON
    if tree is not None:
        try:
            return _tree("json", tree[0], data, masks, note, most)
        except RecursionError:
            note = "it is nested too deeply"
    if masks:
        why = "fields of this topic are masked, and this value is neither Avro nor JSON"
        return Shown("hidden", "", len(data), f"{note}; {why}" if note else why)
    return _raw(data, note, most)


def plain(data: bytes | None) -> str:
    """A key or the value of a header in a line: text, or ``0x..``; ``null``."""
    if data is None:
        return "null"
    text = _text(data)
    if text is not None:
        return text if len(text) <= 200 else f"{text[:199]}…"
    return f"0x{data[:64].hex()}" + ("…" if len(data) > 64 else "")


def _tree(kind: Kind, value: Any, data: bytes, masks: Masks, note: str, most: int) -> Shown:
    before = masks.hidden
    text = json.dumps(_plain(masks.applied(value), 0), ensure_ascii=False, indent=2)
    notes = [note] if note else []
    if masks.hidden > before:
        notes.append(f"{masks.hidden - before} fields masked")
    if len(text) > most:
        notes.append(f"the first {most:,} of {len(text):,} characters")
        text = text[:most]
    return Shown(kind, text, len(data), "; ".join(notes))


def _plain(value: Any, depth: int) -> Any:
    """What JSON can say: bytes as hex, times and decimals as text. RecursionError if it is nested
    too deeply."""
    if depth > 300:
        raise RecursionError
    if isinstance(value, dict):
        return {str(name): _plain(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1) for inner in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"0x{bytes(value[:HEX]).hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def _json(data: bytes) -> tuple[Any] | None:
    """The document in the bytes; None: they are none. Numbers alone are text."""
    if data.lstrip()[:1] not in (b"{", b"[") or b"\0" in data[:64]:
        return None
    try:
        return (json.loads(data),)
    except (ValueError, RecursionError):
        return None


def _raw(data: bytes, note: str, most: int) -> Shown:
    text = _text(data)
    notes = [note] if note else []
    if text is not None:
        if len(text) > most:
            notes.append(f"the first {most:,} of {len(text):,} characters")
        return Shown("text", text[:most], len(data), "; ".join(notes))
    if len(data) > HEX:
        notes.append(f"the first {HEX} of {len(data):,} bytes")
    return Shown("hex", _hex(data[:HEX]), len(data), "; ".join(notes))


def _text(data: bytes) -> str | None:
    """UTF-8 without control characters but line ends and tabs; None: it is something else."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    controls = sum(1 for char in text[:MOST] if ord(char) < 32 and char not in "\n\r\t")
    return None if controls else text


def _hex(data: bytes) -> str:
    lines: list[str] = []
    for at in range(0, len(data), _ROW):
        row = data[at : at + _ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(lines)
