"""Reading requests: parameters by the rules of JAX-RS, bodies that are JSON and bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from anyio import to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from tallymark_schema_registry import errors

Item = TypeVar("Item")
MAX_BODY: Final = 1_048_576
"""Bytes. The largest real schemas are some 300 kB."""
_LARGE_BODY: Final = 65_536


def subject_of(request: Request) -> str:
    """The subject of the path, decoded: routes see the path as it was sent."""
    return unquote(request.path_params["subject"], errors="replace")


def flag(request: Request, name: str) -> bool:
    """``true`` in any case is true and everything else false, never an error."""
    return request.query_params.get(name, "").lower() == "true"


def integer(text: str) -> int:
    """A number in a path or query; anything else names nothing, hence 404."""
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= 11:
        return int(text)
    raise errors.not_found()


def page(request: Request, items: list[Item]) -> list[Item]:
    """The part that ``offset`` (default 0) and ``limit`` (default -1: all) ask for."""
    offset = max(0, integer(request.query_params.get("offset", "0")))
    limit = integer(request.query_params.get("limit", "-1"))
    return items[offset:] if limit < 0 else items[offset : offset + limit]


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
    try:
        # A large one takes long enough to delay other requests.
        text = bytes(data)
        large = len(text) > _LARGE_BODY
        body = await to_thread.run_sync(json.loads, text) if large else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.bad_json(str(error)) from error
    if not isinstance(body, dict):
        raise errors.bad_json("not an object")
    return body


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """What the bodies of register, look-up and check have in common."""

    text: str

    @classmethod
    async def read(cls, request: Request, subject: str) -> SchemaRequest:
        """Properties that are unknown here are ignored; those that would change the meaning of the
        request and that we do not serve are refused."""
        body = await body_of(request)
        if (body.get("schemaType") or "AVRO") != "AVRO":
            raise errors.invalid_schema(f"the type {body['schemaType']} is not served, only AVRO")
        if body.get("references"):
            raise errors.invalid_schema("references to other subjects are not served")
        if isinstance(body.get("id"), int) and body["id"] > 0:
            raise errors.not_permitted(f"Subject {subject} is not in import mode")
        text = body.get("schema")
        if not isinstance(text, str):
            raise errors.invalid_schema("it is empty" if text is None else "it is not a string")
        return cls(text)
