"""JSON documents in nodes: written compactly, and checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tallymark.coordination.session.errors import MalformedNodeError


def dump(document: Mapping[str, Any]) -> bytes:
    """The document as compact UTF-8 JSON."""
    return json.dumps(document, separators=(",", ":")).encode()


def load(path: str, data: bytes) -> dict[str, Any]:
    """The JSON object in a node; MalformedNodeError names the node."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedNodeError(path, f"not JSON ({error})") from None
    if not isinstance(document, dict):
        raise MalformedNodeError(path, "not a JSON object")
    return document


T = TypeVar("T")


def field(path: str, document: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """One field of that exact type (a boolean is no int); MalformedNodeError otherwise."""
    value = document.get(name)
    if type(value) is not kind:
        raise MalformedNodeError(path, f"{name!r} is {value!r}, not {kind.__name__}")
    return value


def integers(path: str, name: str, value: Any) -> tuple[int, ...]:
    """A JSON list of integers; MalformedNodeError otherwise."""
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise MalformedNodeError(path, f"{name!r} is {value!r}, not a list of integers")
    return tuple(value)
