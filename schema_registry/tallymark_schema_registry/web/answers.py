"""Making answers: JSON with the registry's content type, and what a client may keep of it.

===================  ==========================================================================
an answer that ...   is sent with
===================  ==========================================================================
never changes        ``ETag`` and ``Cache-Control: private, max-age=31536000, immutable``: a schema
                     by its id, since ids are never given again
may change           ``ETag`` and ``Cache-Control: private, no-cache``: the client asks each time,
                     and gets 304 without a body while it is the same
was a change         neither
===================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from typing import Any

from fastapi import Request, Response

from tallymark_schema_registry.web.negotiate import V1


class Keep(Enum):
    """What a client may keep: the value of ``Cache-Control``."""

    FOR_EVER = "private, max-age=31536000, immutable"
    ASK_AGAIN = "private, no-cache"


def as_json(value: Any) -> Response:
    """A 200 with the registry's content type."""
    return Response(json_bytes(value), media_type=V1)


def readable(request: Request, value: Any, keep: Keep = Keep.ASK_AGAIN) -> Response:
    """The answer to a GET: a 200, or a 304 where the client has it already."""
    return _kept(request, json_bytes(value), keep)


def raw(request: Request, text: str, keep: Keep = Keep.ASK_AGAIN) -> Response:
    """A schema's text itself, not a JSON string of it."""
    return _kept(request, text.encode(), keep)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def etag_of(body: bytes) -> str:
    """A strong validator: the same for the same bytes, in every process."""
    return f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def _kept(request: Request, body: bytes, keep: Keep) -> Response:
    etag = etag_of(body)
    headers = {"etag": etag, "cache-control": keep.value, "vary": "accept, authorization"}
    if has_it(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=V1)


def has_it(if_none_match: str | None, etag: str) -> bool:
    """Whether the header ``If-None-Match`` names what would be sent (RFC 9110, 13.1.2)."""
    if not if_none_match:
        return False
    given = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return etag in given or "*" in given
