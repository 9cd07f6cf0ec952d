"""Building answers."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response

from tallymark_schema_registry.store import Stored
from tallymark_schema_registry.web.negotiate import V1


def as_json(value: Any) -> Response:
    """A 200 with the registry's content type."""
    return Response(json_bytes(value), media_type=V1)


def raw(text: str) -> Response:
    """A schema's text itself, not a JSON string of it."""
    return Response(text, media_type=V1)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def version_body(stored: Stored) -> dict[str, Any]:
    """One version in the shape of the 7.x servers: no ``schemaType`` where it is AVRO."""
    return {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.schema_id,
        "schema": stored.text,
    }
