"""The text under which a schema is stored and recognised.

It is what Java's ``Schema.toString()`` writes, so a registry that was filled through one server
finds its schemas again through another: white space, order of attributes, ``{"type":"string"}``
and needless namespaces do not matter; doc, aliases, defaults, the order of fields and attributes
without a meaning do. Order of attributes::

    record  type name namespace? doc? fields <props> aliases?
    field   name type doc? default? order? aliases? <props>
    enum    type name namespace? doc? symbols default? <props> aliases?
    fixed   type name namespace? doc? size <props> aliases?
    array   type items <props>          map   type values <props>

This is not Avro's Parsing Canonical Form, which drops docs, defaults and aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from tallymark_schema_registry.schemas.model import (
    MISSING,
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Node,
    Primitive,
    Record,
    Ref,
    Schema,
    Union,
)

_UNSAFE: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def canonical_text(schema: Schema) -> str:
    """The canonical text. Parsing it and writing it again gives the same text."""
    return _Writer(schema).node(schema.root, "")


class _Writer:
    """One run over one schema; a definition is written where it is met first."""

    def __init__(self, schema: Schema) -> None:
        self.names = schema.names
        self.written: set[Name] = set()

    def node(self, node: Node, space: str) -> str:
        """``space`` is the enclosing namespace."""
        if isinstance(node, Ref):
            return json_text(self.reference(node.name, space))
        if isinstance(node, Primitive):
            if not node.props:
                return f'"{node.kind}"'
            return _object([("type", json_text(node.kind)), *_props(node.props)])
        if isinstance(node, Union):
            return "[" + ",".join(self.node(branch, space) for branch in node.branches) + "]"
        if isinstance(node, Array):
            items = self.node(node.items, space)
            return _object([("type", '"array"'), ("items", items), *_props(node.props)])
        if isinstance(node, Map):
            values = self.node(node.values, space)
            return _object([("type", '"map"'), ("values", values), *_props(node.props)])
        if node.name in self.written:
            return json_text(self.reference(node.name, space))
        self.written.add(node.name)
        return self.definition(node, space)

    def definition(self, node: Named, space: str) -> str:
        kind = (
            "error" if isinstance(node, Record) and node.is_error else type(node).__name__.lower()
        )
        parts = [("type", json_text(kind)), ("name", json_text(node.name.simple))]
        if node.name.space != space:
            parts.append(("namespace", json_text(node.name.space)))
        if node.doc is not None:
            parts.append(("doc", json_text(node.doc)))
        if isinstance(node, Record):
            fields = ",".join(self.field(field, node.name.space) for field in node.fields)
            parts.append(("fields", f"[{fields}]"))
        elif isinstance(node, Enum):
            parts.append(("symbols", json_text(list(node.symbols))))
            if node.default is not None:
                parts.append(("default", json_text(node.default)))
        elif isinstance(node, Fixed):
            parts.append(("size", str(node.size)))
        parts.extend(_props(node.props))
        if node.aliases:
            aliases = [_alias(alias, node.name.space) for alias in dict.fromkeys(node.aliases)]
            parts.append(("aliases", json_text(aliases)))
        return _object(parts)

    def field(self, field: Field, space: str) -> str:
        parts = [("name", json_text(field.name)), ("type", self.node(field.type, space))]
        if field.doc is not None:
            parts.append(("doc", json_text(field.doc)))
        if field.default is not MISSING:
            parts.append(("default", json_text(field.default)))
        if field.order != "ascending":
            parts.append(("order", json_text(field.order)))
        if field.aliases:
            parts.append(("aliases", json_text(list(field.aliases))))
        return _object([*parts, *_props(field.props)])

    def reference(self, name: Name, space: str) -> str:
        """The shortest text that parses back to ``name`` here.

        Java shortens without looking whether another type has the short name, too; where one has,
        the full name is written here, since a schema must not change its meaning by being stored.
        """
        if name.space and name.space != space:
            return name.full
        other = Name("" if name.space else space, name.simple)
        if name.simple in PRIMITIVES or (space and other in self.names):
            return f"{name.space}.{name.simple}"
        return name.simple


def _alias(alias: Name, space: str) -> str:
    if alias.space == space:
        return alias.simple
    return f"{alias.space}.{alias.simple}"


def _props(props: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(key, json_text(value)) for key, value in props]


def _object(parts: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json_text(key)}:{text}" for key, text in parts) + "}"


def json_text(value: Any) -> str:
    """JSON as Jackson writes it: no spaces, non-ASCII as it is, doubles by Java's rules."""
    if isinstance(value, str):
        return '"' + _UNSAFE.sub(_escape, value) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    return _object((key, json_text(item)) for key, item in value.items())


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT.get(char) or f"\\u{ord(char):04X}"


def java_double(value: float) -> str:
    """``Double.toString``: 1.0, 0.001, then 1.0E7 and 1.0E-4 from where Java goes scientific."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return _plain(repr(value))
    sign, digits, exponent = _decompose(repr(value))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _plain(text: str) -> str:
    # Python writes 0.001 to 9999999.9 plainly, too: the ranges of the two overlap there.
    return text if "." in text else f"{text}.0"


def _decompose(text: str) -> tuple[str, str, int]:
    """Sign, significant digits, and the exponent of the first one."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(power or 0) + len(whole) - 1
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits.strip("0") or "0", exponent - leading
