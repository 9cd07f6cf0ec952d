"""The reader's schema: the Avro type that every value is given as, whatever it was written with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.serialization import AvroCodec, SerializationError
from tallymark_spark_jobs.source.avro import kinds
from tallymark_spark_jobs.source.avro.kinds import Kind

MOST_DIGITS: Final = 38
"""Of a decimal in Spark and in Arrow's 128 bits."""
_PLAIN: Final = {
    "null": kinds.NULL,
    "boolean": kinds.BOOLEAN,
    "int": kinds.INT,
    "long": kinds.LONG,
    "float": kinds.FLOAT,
    "double": kinds.DOUBLE,
    "string": kinds.STRING,
    "bytes": kinds.BINARY,
}
_WIDE: Final[dict[frozenset[str], Kind]] = {
    frozenset(("int", "long")): kinds.LONG,
    frozenset(("float", "double")): kinds.DOUBLE,
}
_MARK: Final = "logicalType"


@dataclass(frozen=True, slots=True)
class ReaderSchema:
    """The schema's text, and the texts of those it takes types from, each before those that refer
    to it. Pickled into every task, so that all of them read with the same one. ``says``: where it
    is from, for messages."""

    text: str
    references: tuple[str, ...] = ()
    says: str = "the option avro.schema"

    def codec(self) -> AvroCodec:
        """With logical types. Raises UserError where it is not valid, or contains itself."""
        try:
            codec = AvroCodec(self.text, self.references)
        except SerializationError as error:
            raise UserError(f"{self.says} cannot be read with: {error}") from error
        if codec.recursive:
            raise UserError(
                f"{self.says} has a type that contains itself, which no column of Spark can",
                "give a reader's schema without that field (avro.schema)",
            )
        return codec

    def kind(self) -> Kind:
        """The type of the column, and its builder. Raises UserError for what Spark has no type
        for."""
        codec = self.codec()
        try:
            return _Types(codec).kind(codec.parsed)
        except SerializationError as error:
            raise UserError(f"{self.says}: {error}") from error

    def tags(self) -> bool:
        """Whether it has a union of several types."""
        return _has_union(self.codec().parsed)


def without_logical_types(text: str) -> str:
    """The schema as bytes are decoded with: a logical type is only what a value means."""
    return json.dumps(_stripped(json.loads(text)))


def _stripped(node: Any) -> Any:
    if isinstance(node, list):
        return [_stripped(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != _MARK}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _stripped(kept[key])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_stripped(field) for field in kept["fields"]]
    return kept


class _Types:
    """Kinds of a schema's types."""

    def __init__(self, codec: AvroCodec) -> None:
        self._known = codec.known
        self._tags = _has_union(codec.parsed)

    def kind(self, node: Any) -> Kind:
        if isinstance(node, list):
            return self._union(node)
        if isinstance(node, str):
            return _PLAIN[node] if node in _PLAIN else self.kind(self._known[node])
        name = node["type"]
        if isinstance(name, list | dict):
            return self.kind(name)
        if name == "array":
            return kinds.ListKind(self.kind(node["items"]))
        if name == "map":
            return kinds.MapKind(self.kind(node["values"]))
        if name in ("record", "error"):
            fields = [(field["name"], self.kind(field["type"])) for field in node["fields"]]
            return self._named(node, kinds.RecordKind(fields))
        if name == "enum":
            return self._named(node, kinds.STRING)
        if name == "fixed":
            return self._named(node, _of_bytes(node))
        return _of_plain(name, node)

    def _union(self, branches: list[Any]) -> Kind:
        there = [branch for branch in branches if _simple(branch) != "null"]
        if not there:
            return kinds.NULL
        if len(there) == 1:
            return self.kind(there[0])
        wide = _WIDE.get(frozenset(_simple(branch) for branch in there))
        return wide or kinds.UnionKind([self.kind(branch) for branch in there])

    def _named(self, node: Mapping[str, Any], kind: Kind) -> Kind:
        return kinds.Tagged(node["name"], kind) if self._tags else kind


def _of_plain(name: str, node: Mapping[str, Any]) -> Kind:
    logical = str(node.get(_MARK, ""))
    if name == "int":
        return kinds.OF_INT.get(logical, kinds.INT)
    if name == "long":
        return kinds.OF_LONG.get(logical, kinds.LONG)
    return _of_bytes(node) if name == "bytes" else _PLAIN[name]


def _of_bytes(node: Mapping[str, Any]) -> Kind:
    logical = node.get(_MARK)
    if logical == "uuid" and node.get("size") == 16:
        return kinds.UUID_OF_BYTES
    if logical != "decimal":
        return kinds.BINARY
    precision, scale = node["precision"], node.get("scale", 0)
    if precision > MOST_DIGITS:
        raise SerializationError(
            f"a decimal of {precision} digits is more than the {MOST_DIGITS} that Spark has"
        )
    return kinds.decimal(precision, scale)


def _simple(branch: Any) -> str:
    """The type's name; "" for one with a logical type, whose values are not plain numbers."""
    if isinstance(branch, dict):
        return "" if _MARK in branch else str(branch["type"])
    return str(branch)


def _has_union(node: Any) -> bool:
    if isinstance(node, list):
        there = [branch for branch in node if _simple(branch) != "null"]
        if len(there) > 1 and frozenset(map(_simple, there)) not in _WIDE:
            return True
        return any(map(_has_union, there))
    if not isinstance(node, dict):
        return False
    inner = [node.get(key) for key in ("type", "items", "values")]
    return any(map(_has_union, inner)) or any(map(_has_union, node.get("fields", ())))
