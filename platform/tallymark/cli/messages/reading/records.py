"""How commands show a message: as a line with its value and chosen fields, or as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, stamp_of
from tallymark.untrusted import escaped_json

if TYPE_CHECKING:
    from tallymark.serialization import AvroDecoder

FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "headers", "stamp")
"""What can be shown in front of the value, besides it."""


class Shown(NamedTuple):
    """A message, wherever it was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


Decode = Callable[[str, bytes | None], Any]
"""``decode(topic, bytes)``: text, or what a registry's schema makes of it."""


def text(_topic: str, data: bytes | None) -> Any:
    """Text where it is UTF-8, else ``{"base64": ...}``; None is None."""
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def avro(decoder: AvroDecoder) -> Decode:
    """Avro with a schema's id in front becomes JSON; what is none is shown as it is."""
    from tallymark.serialization import SerializationError

    def decode(topic: str, data: bytes | None) -> Any:
        if data is None or data[:1] != b"\0":
            return text(topic, data)
        try:
            return _plain(decoder(topic, data))
        except SerializationError:
            return text(topic, data)

    return decode


def _plain(value: Any) -> Any:
    """What JSON can say: bytes as those of a message, numbers that JSON has not as text."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return text("", value)
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value


def as_json(message: Shown, decode: Decode = text) -> bytes:
    """One JSON object: topic, partition, offset, timestamp (ms), key, value, headers without the
    stamp, and the stamp."""
    document: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": decode(message.topic, message.key),
        "value": decode(message.topic, message.value),
        "headers": _headers(message),
    }
    stamp = _stamp(message)
    if stamp is not None:
        document["stamp"] = stamp
    return escaped_json(json.dumps(document, ensure_ascii=False, default=str)).encode()


def as_line(message: Shown, fields: Sequence[str], decode: Decode = text) -> bytes:
    """The value's bytes; before it, separated by tabs, ``fields`` of FIELDS in their order. A key
    or value that is absent is empty. With another ``decode`` the value is JSON."""
    parts = [_field(message, name) for name in fields]
    if decode is text:
        parts.append(bytes(message.value or b""))
    else:
        value = decode(message.topic, message.value)
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        parts.append(shown.encode())
    return b"\t".join(parts)


def _field(message: Shown, name: str) -> bytes:
    if name == "key":
        return bytes(message.key or b"")
    if name == "headers":
        return json.dumps(_headers(message), ensure_ascii=False).encode()
    if name == "stamp":
        stamp = _stamp(message)
        return (
            b"-"
            if stamp is None
            else "{server}:{instance}:{partition}:{sequence}".format(**stamp).encode()
        )
    return str(getattr(message, name)).encode()


def _headers(message: Shown) -> list[list[Any]]:
    return [[name, text("", value)] for name, value in message.headers if name != STAMP_HEADER]


def _stamp(message: Shown) -> dict[str, Any] | None:
    stamp = stamp_of(message.headers)
    if not isinstance(stamp, Stamp):
        return None
    return {
        "server": stamp.server,
        "instance": stamp.instance.hex(),
        "partition": stamp.partition,
        "sequence": stamp.sequence,
    }
