"""The bytes of a monitoring event.

A value is Avro *single-object encoding*: the schema's own fingerprint names the version, so the
schema registry may be down and an event of another version is recognised, not misread::

    0        2                                10                   n - 4       n
    +--------+--------------------------------+--------------------+-----------+
    | C3 01  | CRC-64-AVRO of the schema, LE  | the datum, Avro binary         |
    +--------+--------------------------------+--------------------+-----------+
                                              its last field:      | checksum  |
                                                                   +-----------+

The checksum is the CRC-32C of all bytes before it, little endian: an event that was changed on its
way, or on a disk whose batch's CRC was made anew, is refused whole. Versions before 4 have none.

Lists of ranges are flat: first, last, first, last, ...

Events of older versions are read: a field that they lack has the value for "not known". Collectors
that do not know version 4 report it as an event of another version, so collectors are updated
first.
"""

from __future__ import annotations

import struct
from functools import cache
from io import BytesIO
from operator import attrgetter
from typing import Any, Final, cast

import crc32c
import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from tallymark.errors import RemoteProtocolError
from tallymark_audit.events import event_schema, event_schema_v1, event_schema_v2, event_schema_v3
from tallymark_audit.events.event_schema import MARKER
from tallymark_audit.events.events import MAX_TEXT, AuditEvent, CellReport, Copied, Gap
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, Summary
from tallymark_audit.model.hashing import MASK
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS, levels_from_json, levels_to_json

MAX_BYTES: Final = 2 << 20
"""Of one event. Reporters split what is larger than half a megabyte; read, a byte may be fifty."""
VERSION: Final = 4
CHECKED: Final = 4
"""The first version that carries a checksum."""
_CRC: Final = struct.Struct("<I")


def encode_event(event: AuditEvent) -> bytes:
    """The value of the event's record."""
    out = BytesIO()
    out.write(MARKER)
    out.write(_fingerprint(VERSION))
    fastavro.schemaless_writer(out, _schema(VERSION), _to_avro(event))
    body = out.getvalue()[: -_CRC.size]
    return body + _CRC.pack(crc32c.crc32c(body))


def decode_event(value: bytes | memoryview, window_ms: int | None = None) -> AuditEvent:
    """Read one event. RemoteProtocolError: not an audit event, of an unknown version, damaged, or
    about windows of another length than ``window_ms``, which cannot be compared; says which.

    Whether its values are possible is checked by
    :func:`~tallymark_audit.events.event_checks.read_event`.
    """
    if len(value) > MAX_BYTES:
        raise RemoteProtocolError(f"not an audit event: {len(value)} bytes, {MAX_BYTES} at most")
    data = bytes(value)
    if data[:2] != MARKER:
        raise RemoteProtocolError("not an audit event: the value is not single-object Avro")
    version = _version(data[2:10])
    if version is None:
        raise RemoteProtocolError(
            f"an audit event of another version: schema fingerprint {data[2:10].hex()}"
        )
    if version >= CHECKED and not _holds(data):
        raise RemoteProtocolError("a damaged audit event: it does not match its checksum")
    rest = BytesIO(data[10:])
    try:
        raw = fastavro.schemaless_reader(rest, _schema(version), None)
        event = _from_avro(cast("dict[str, Any]", raw), version)
    except (EOFError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise RemoteProtocolError(f"a damaged audit event: {error}") from error
    if rest.read(1):
        raise RemoteProtocolError("a damaged audit event: bytes follow its end")
    if window_ms is not None and event.window_ms != window_ms:
        raise RemoteProtocolError(
            f"{event.reporter} on {event.server} counts in windows of {event.window_ms} ms, this "
            f"deployment in {window_ms}: start it with the deployment's settings"
        )
    return event


def _holds(data: bytes) -> bool:
    body, checksum = data[: -_CRC.size], data[-_CRC.size :]
    return bool(crc32c.crc32c(body) == _CRC.unpack(checksum)[0])


def _to_avro(event: AuditEvent) -> dict[str, Any]:
    """The fields of the newest version; the checksum is filled in over the encoded bytes."""
    fields = {name: getattr(event, name) for name in AuditEvent.__slots__ if name != "checked"}
    fields |= {"version": VERSION, "checksum": bytes(_CRC.size)}
    fields["cells"] = [_cell_to_avro(cell) for cell in event.cells]
    fields["gaps"] = [_fields(gap) for gap in event.gaps]
    fields["copied"] = [_fields(copied) for copied in event.copied]
    return fields


def _fields(record: Gap | Copied) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__slots__}


def _cell_to_avro(cell: CellReport) -> dict[str, Any]:
    fields = dict(zip(CellReport.__slots__, _cell_fields(cell), strict=True))
    for name in _RANGES:
        fields[name] = fields[name].to_list()
    fields["again"] = levels_to_json(cell.again)
    fields["blocks"] = [block._asdict() | {"hash": _signed(block.hash)} for block in cell.blocks]
    if cell.summary:
        signed = _signed(cell.summary.fingerprint)
        fields["summary"] = cell.summary._asdict() | {"fingerprint": signed}
    return fields


def _from_avro(raw: dict[str, Any], version: int) -> AuditEvent:
    """``raw`` holds the fields of its version; those that it lacks keep their defaults."""
    _check_event(raw, version)
    fields: dict[str, Any] = {name: raw[name] for name in AuditEvent.__slots__ if name in raw}
    fields |= {
        "cells": tuple(_cell_from_avro(cell) for cell in raw["cells"]),
        "gaps": _gaps_from_avro(raw["gaps"]),
        "copied": tuple(_copied_from_avro(copied) for copied in raw.get("copied", ())),
        "checked": version >= CHECKED,
    }
    return AuditEvent(**fields)


def _check_event(raw: dict[str, Any], version: int) -> None:
    """Limits that Avro cannot express. A bad report must not reach the store, whose columns are
    bounded."""
    if raw["version"] != version:
        raise ValueError(f"version {raw['version']} under the schema of version {version}")
    number, group = raw["event_number"], raw["group"]
    if not (0 <= raw["covers_from"] <= number and 1 <= group <= number + 1):
        raise ValueError(f"event {number} cannot cover from {raw['covers_from']}, group {group}")
    _check_instance(raw["instance"])
    for name in ("kind", "reporter", "tier", "server", "application", "instance"):
        _check_text(name, raw[name])
    _check_text("consumer_group", raw.get("consumer_group", ""))


def _check_instance(instance: str) -> None:
    if len(instance) not in (0, 16):
        raise ValueError("an instance is 16 hex digits")


def _check_text(name: str, text: str) -> None:
    if len(text) > MAX_TEXT or "\0" in text:
        raise ValueError(f"a {name} of {len(text)} characters, or with a NUL")


def _gaps_from_avro(raw: list[dict[str, Any]]) -> tuple[Gap, ...]:
    """Without the empty ones, which older mirrors reported of a topic that was made again."""
    for gap in raw:
        _check_text("topic", gap["topic"])
        _check_text("reason", gap["reason"])
    return tuple(Gap(**gap) for gap in raw if gap["first_offset"] <= gap["last_offset"])


def _copied_from_avro(raw: dict[str, Any]) -> Copied:
    for name in ("topic", "target_topic", "topic_id"):
        _check_text(name, raw[name])
    return Copied(**raw)


def _cell_from_avro(raw: dict[str, Any]) -> CellReport:
    _check_text("topic", raw["topic"])
    _check_text("server", raw.get("server", ""))
    _check_instance(raw.get("instance", ""))
    if raw["partition"] < 0 or raw["count"] < 0 or raw["bytes"] < 0:
        raise ValueError("a cell with a negative partition, count or size")
    sketches.from_list(raw.get("latency", []))
    summary = _summary_from_avro(raw.get("summary"))
    if len(again := raw.get("again", ())) > MAX_LEVELS:
        raise ValueError(f"a cell in which something came {len(again)} times again")
    fields: dict[str, Any] = {name: raw[name] for name in CellReport.__slots__ if name in raw}
    fields |= {name: RangeSet.from_list(raw[name]) for name in _RANGES if name in raw}
    fields |= {
        "again": levels_from_json(again),
        "latency": tuple(raw.get("latency", ())),
        "blocks": tuple(_block_from_avro(block) for block in raw.get("blocks", ())),
        "summary": summary,
    }
    return CellReport(**fields)


def _block_from_avro(raw: dict[str, int]) -> Block:
    block = Block(**raw)
    if block.block < 0 or block.records < 1:
        raise ValueError(f"block {block.block} of {block.records} records")
    return block._replace(hash=block.hash & MASK)


def _summary_from_avro(raw: dict[str, int] | None) -> Summary | None:
    if raw is None:
        return None
    summary = Summary(**raw)
    if min(summary[:4]) < 0:
        raise ValueError("a summary with less than no records")
    return summary._replace(fingerprint=summary.fingerprint & MASK)


def _signed(number: int) -> int:
    """A sum of hashes has 64 bits and no sign, a long of Avro has 63 and one."""
    return number - (1 << 64) if number >> 63 else number


_RANGES: Final = (
    "accepted",
    "acknowledged",
    "failed",
    "in_doubt",
    "aborted",
    "filtered",
    "expired",
)
_cell_fields: Final = attrgetter(*CellReport.__slots__)
_SCHEMAS: Final = {
    1: event_schema_v1.SCHEMA,
    2: event_schema_v2.SCHEMA,
    3: event_schema_v3.SCHEMA,
    VERSION: event_schema.SCHEMA,
}


@cache
def _schema(version: int) -> Any:
    return fastavro.parse_schema(_SCHEMAS[version])


@cache
def _fingerprint(version: int) -> bytes:
    """8 bytes, little endian, as the specification's single-object encoding wants them."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(_SCHEMAS[version]), "CRC-64-AVRO"))


def _version(found: bytes) -> int | None:
    """The version whose schema has that fingerprint."""
    return next((version for version in _SCHEMAS if _fingerprint(version) == found), None)
