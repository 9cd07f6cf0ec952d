"""Schemas as JSON trees: parsed by fastavro, with what belongs to them put together, and without
what reading does not need. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import fastavro
from fastavro.schema import UnknownType

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
_KINDS: Final = frozenset((*PRIMITIVES, *_NAMED, "array", "map", "union"))
_NOWHERE: Final = "tallymark__nowhere"
"""The namespace that types without one have while they are parsed, where that is needed."""


class Parsed(NamedTuple):
    """``tree``: one JSON tree that needs no other. ``schema``: as fastavro takes it, all names
    full, not to be parsed again. ``known``: its named types."""

    tree: Any
    schema: Any
    known: dict[str, Any]


def parse(tree: Any, referred: Sequence[Any]) -> Parsed:
    """``referred``: the schemas that ``tree`` takes types from, each before those that refer to it.

    Raises what fastavro raises where a schema is not valid."""
    try:
        return _parse(tree, referred)
    except UnknownType:
        # Java also finds a type without a namespace by its name alone from within a namespace, and
        # writes it so; fastavro has no words for that.
        seen: set[str] = set()
        *referred, tree = [with_full_names(one, "", seen) for one in (*referred, tree)]
        found = _parse(tree, referred)
        _forget_nowhere([found.schema, found.known])
        known = {_bare(name): one for name, one in found.known.items()}
        return Parsed(found.tree, _marked(found.schema, known), known)


def _parse(tree: Any, referred: Sequence[Any]) -> Parsed:
    if referred:
        types: dict[str, Any] = {}
        for one in referred:
            fastavro.parse_schema(one, types)
        tree = _written_out(fastavro.parse_schema(tree, types), types, set())
    known: dict[str, Any] = {}
    return Parsed(tree, _marked(fastavro.parse_schema(tree, known), known), known)


def _marked(schema: Any, known: dict[str, Any]) -> Any:
    """fastavro marks records only, and parses all else again for each value."""
    for one in schema if isinstance(schema, list) else [schema]:
        if isinstance(one, dict):
            name = one.get("name", "")
            if name in known and known[name] is one:
                known[name] = {**one}  # not itself, or comparing schemas would never end
            one["__fastavro_parsed"] = True
            one["__named_schemas"] = known
    return schema


def with_full_names(node: Any, space: str, seen: set[str]) -> Any:
    """All names full, as Java understands them in the namespace ``space``. What has no namespace
    gets one. ``seen``: the names defined so far; they are added."""
    if isinstance(node, str):
        return node if node in PRIMITIVES else _full_name(node, space, seen)
    if isinstance(node, list):
        return [with_full_names(branch, space, seen) for branch in node]
    if not isinstance(node, dict) or "type" not in node:
        return node
    kind, name = node["type"], node.get("name")
    if isinstance(kind, str) and kind in _NAMED and isinstance(name, str):
        before, dot, simple = name.rpartition(".")
        space = before if dot else str(node.get("namespace", space) or "")
        full = f"{space or _NOWHERE}.{simple}"
        seen.add(full)
        node = {**{key: value for key, value in node.items() if key != "namespace"}, "name": full}
    return _with_types(node, lambda inner: with_full_names(inner, space, seen))


def _full_name(name: str, space: str, seen: set[str]) -> str:
    if "." in name:
        return name
    near, bare = f"{space or _NOWHERE}.{name}", f"{_NOWHERE}.{name}"
    return bare if near not in seen and bare in seen else near


def _forget_nowhere(node: Any) -> None:
    """Take the namespace away again, in place."""
    places: Any = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in [*places]:
        if isinstance(value, str):
            node[key] = _bare(value)
        elif isinstance(value, dict | list) and key != "__named_schemas":
            _forget_nowhere(value)


def _bare(name: str) -> str:
    """Without the namespace, unless fastavro would take what is left for a kind of type."""
    bare = name.removeprefix(f"{_NOWHERE}.")
    return name if bare in _KINDS else bare


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
    about: defaults, orders, and decimals that are none (Avro: "must be ignored")."""
    if isinstance(tree, list):
        return [for_reading(branch) for branch in tree]
    if not isinstance(tree, dict) or "type" not in tree:
        return tree
    kept = dict(tree)
    if tree["type"] == "enum":
        kept.pop("default", None)
    if tree.get("logicalType") == "decimal" and not _is_decimal(tree):
        del kept["logicalType"]
    return _with_types(kept, for_reading, without=("default", "order"))


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
