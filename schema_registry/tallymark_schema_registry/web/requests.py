"""Reading bodies: JSON, bounded, and of the types that their properties have."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from tallymark_schema_registry import errors
from tallymark_schema_registry.catalog.content import AVRO, Reference
from tallymark_schema_registry.catalog.contracts import metadata_text, rule_set_text
from tallymark_schema_registry.decisions.commands import Sent

MAX_BODY: Final = 1_048_576
"""Bytes. The largest real schemas are some 300 kB."""
MAX_PARTS: Final = 131_072
"""Commas and opening brackets of a body, within texts too. A schema of a megabyte has less than
100,000; reading many more would take a tenth of a second, in which no other request is answered."""
_MOST: Final = 2**31
_MAYBE_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""An escape of one half of a surrogate pair: alone it is no character and can be stored nowhere."""


async def body_of(request: Request) -> dict[str, Any]:
    """The body, a JSON object. At most :data:`MAX_BODY` bytes are read, whatever was announced."""
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > MAX_BODY:
                raise errors.too_large(MAX_BODY)
    except ClientDisconnect as error:  # no client gets the answer; it is for the access log
        raise errors.bad_json("it ended too early") from error
    if len(data) > MAX_PARTS and sum(map(data.count, (b",", b"[", b"{"))) > MAX_PARTS:
        raise errors.bad_json(f"it has more than {MAX_PARTS} parts")
    try:
        body = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise errors.bad_json(str(error)) from error
    if not isinstance(body, dict):
        raise errors.bad_json("not an object")
    if _MAYBE_HALF.search(data) and not _is_unicode(body):
        raise errors.bad_json("a text has one half of a surrogate pair")
    return body


def _is_unicode(body: dict[str, Any]) -> bool:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


async def sent_of(request: Request) -> Sent:
    """What the body of a registration, look-up or check says. Unknown properties are ignored; null
    is as if the property were not there."""
    body = await body_of(request)
    return Sent(
        text=_text(body, "schema"),
        kind=_text(body, "schemaType") or AVRO,
        references=_references(body.get("references")),
        metadata=metadata_text(body.get("metadata")),
        rule_set=rule_set_text(body.get("ruleSet")),
        schema_id=_number(body, "id"),
        version=_number(body, "version"),
    )


def _text(body: dict[str, Any], name: str) -> str | None:
    found = body.get(name)
    if found is None or isinstance(found, str):
        return found
    raise errors.invalid_schema(f"{name} is not a string")


def _number(body: dict[str, Any], name: str) -> int | None:
    found = body.get(name)
    if found is None:
        return None
    if not _is_number(found):
        raise errors.bad_json(f"{name} must be a number of 32 bits")
    assert isinstance(found, int)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value < _MOST


def _references(found: Any) -> tuple[Reference, ...]:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise errors.invalid_schema("references is not a list")
    return tuple(_reference(item) for item in found)


def _reference(item: Any) -> Reference:
    if isinstance(item, dict):
        name, subject, version = (item.get(key) for key in ("name", "subject", "version"))
        if isinstance(name, str) and isinstance(subject, str) and _is_number(version):
            return Reference(name, subject, int(version or 0))
    raise errors.invalid_schema("a reference has a name, a subject and a version (a number)")
