"""Schemas as JSON trees: what belongs to one put together, and what reading does not need left
out. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import fastavro

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))


def self_contained(tree: Any, referred: Sequence[Any]) -> Any:
    """``tree`` with the types that it takes from the schemas ``referred`` (each before those that
    refer to it) written out where they are used first. All names are full.

    Raises what fastavro raises where a schema is not valid."""
    known: dict[str, Any] = {}
    for one in referred:
        fastavro.parse_schema(one, known)
    return _written_out(fastavro.parse_schema(tree, known), known, set())


def _written_out(node: Any, known: Mapping[str, Any], done: set[str]) -> Any:
    if isinstance(node, str):
        if node in PRIMITIVES or node in done:
            return node
        return _written_out(known[node], known, done)
    if isinstance(node, list):
        return [_written_out(branch, known, done) for branch in node]
    kind, name = node["type"], node.get("name")
    if isinstance(kind, str) and kind in _NAMED:
        if name in done:
            return name
        done.add(name)
        node = {key: value for key, value in node.items() if not key.startswith("__")}
        if "." not in name:
            node["namespace"] = ""  # else it would be in the namespace of the record around it
    return _with_types(node, lambda inner: _written_out(inner, known, done))


def for_reading(tree: Any) -> Any:
    """``tree`` without what bytes are decoded without, and what other programs are less strict
    about: defaults, and decimals that are none (Avro: "must be ignored")."""
    if isinstance(tree, list):
        return [for_reading(branch) for branch in tree]
    if not isinstance(tree, dict) or "type" not in tree:
        return tree
    kept = dict(tree)
    if tree["type"] == "enum":
        kept.pop("default", None)
    if tree.get("logicalType") == "decimal" and not _is_decimal(tree):
        del kept["logicalType"]
    return _with_types(kept, for_reading, without=("default",))


def _with_types(
    node: dict[str, Any], change: Callable[[Any], Any], without: Sequence[str] = ()
) -> dict[str, Any]:
    """``node`` with the types directly in it changed; the attributes ``without`` of fields left
    out."""
    kind = node["type"]
    if kind in ("record", "error") and isinstance(node.get("fields"), list):
        fields = [
            {
                **{key: value for key, value in field.items() if key not in without},
                "type": change(field["type"]),
            }
            if isinstance(field, dict) and "type" in field
            else field
            for field in node["fields"]
        ]
        return {**node, "fields": fields}
    if kind == "array" and "items" in node:
        return {**node, "items": change(node["items"])}
    if kind == "map" and "values" in node:
        return {**node, "values": change(node["values"])}
    return {**node, "type": change(kind)} if isinstance(kind, dict | list) else node


def _is_decimal(node: Mapping[str, Any]) -> bool:
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return False
    if node["type"] == "fixed":
        size = node.get("size")
        if type(size) is not int or size < 1:
            return False
        return 0 < precision <= math.floor(math.log10(2) * (8 * size - 1))
    return precision > 0
