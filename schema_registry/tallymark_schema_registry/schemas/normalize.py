"""The further canonical form that ``normalize=true`` asks for.

Two schemas that differ in what means nothing get the same text: the order of attributes without a
meaning and of aliases, the order of keys in defaults and attributes, an empty doc of a type, 1 for
1.0 as the default of a double. Docs, defaults, aliases and the order of fields are kept: this is
not Avro's Parsing Canonical Form. It is the form of Confluent's registry (7.0 and later), but for
two things that change what a schema means there: a default of a union's branch that is not the
first is dropped, and a type without namespace within a namespace is moved into that.

Confluent's also sorts the list of references, by subject and version, and takes each once.
"""

from __future__ import annotations

import struct
from typing import Any

from tallymark_schema_registry.schemas.budget import NODE, Budget, TooLargeError
from tallymark_schema_registry.schemas.defaults import DefaultCheck
from tallymark_schema_registry.schemas.logical import logical_type
from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Node,
    Primitive,
    Props,
    Record,
    Ref,
    Schema,
    Union,
)


def normalized(schema: Schema, budget: Budget | None = None) -> Schema:
    """The schema in that form: ``canonical_text`` writes it. Raises TooLargeError."""
    budget = budget or Budget()
    budget.doing = "to normalize"
    try:
        return _Normalizer(schema, budget).schema()
    except RecursionError:  # defaults of a version that is stored were never followed
        raise TooLargeError("it is nested too deeply to normalize") from None


class _Normalizer:
    def __init__(self, schema: Schema, budget: Budget) -> None:
        self.given = schema
        self.budget = budget
        self.defaults = DefaultCheck(schema, budget)
        self.made: dict[int, Named] = {}

    def schema(self) -> Schema:
        names: dict[Name, Named] = {}
        for name, named in self.given.names.items():
            # The types of references are not written, and not changed.
            names[name] = named if name in self.given.known else self.named(named)
        return Schema(self.node(self.given.root), names, self.given.known, self.given.size)

    def node(self, node: Node) -> Node:
        self.budget.spend()
        if isinstance(node, Ref):
            return node
        if isinstance(node, Union):
            return Union(tuple([self.node(branch) for branch in node.branches]))
        if isinstance(node, Array):
            return Array(self.node(node.items), _sorted_props(node.props))
        if isinstance(node, Map):
            return Map(self.node(node.values), _sorted_props(node.props))
        if isinstance(node, Primitive):
            return Primitive(node.kind, _typed_props(node)) if node.props else node
        return self.named(node)

    def named(self, node: Named) -> Named:
        made = self.made.get(id(node))
        if made is None:
            made = self.made[id(node)] = self.definition(node)
        return made

    def definition(self, node: Named) -> Named:
        doc = node.doc or None
        aliases = tuple(sorted(node.aliases, key=lambda alias: _alias(alias, node.name.space)))
        if isinstance(node, Enum):
            props = _sorted_props(node.props)
            return Enum(node.name, node.symbols, node.default, doc, aliases, props)
        if isinstance(node, Fixed):
            return Fixed(node.name, node.size, doc, aliases, _typed_props(node))
        fields = tuple([self.field(field) for field in node.fields])
        # An error is a record, except in protocols.
        return Record(node.name, fields, False, doc, aliases, _sorted_props(node.props))

    def field(self, field: Field) -> Field:
        self.budget.spend(NODE)
        return Field(
            field.name,
            self.node(field.type),
            MISSING if field.default is MISSING else self.default(field.default, field.type),
            field.doc,
            field.order,
            tuple(sorted(field.aliases)),
            _sorted_props(field.props),
        )

    def default(self, value: Any, kind: Node) -> Any:
        """The value as its type writes it."""
        self.budget.spend()
        kind = self.given.resolve(kind)
        if isinstance(kind, Union):
            first = kind.branches[0] if kind.branches else None
            fits = first is not None and self.defaults.fits(first, value)
            return self.default(value, first) if fits and first else _sorted_json(value)
        if isinstance(value, int | float) and isinstance(kind, Primitive):
            return value if isinstance(value, bool) else _number(value, kind.kind)
        if isinstance(value, list) and isinstance(kind, Array):
            return [self.default(item, kind.items) for item in value]
        if isinstance(value, dict) and isinstance(kind, Map | Record):
            return {key: self.item(value[key], kind, key) for key in sorted(value, key=_utf16)}
        return _sorted_json(value)

    def item(self, value: Any, kind: Map | Record, key: str) -> Any:
        if isinstance(kind, Map):
            return self.default(value, kind.values)
        for field in kind.fields:
            if field.name == key:
                return self.default(value, field.type)
        return _sorted_json(value)


def _number(value: float, kind: str) -> float:
    if kind == "double":
        return float(value)
    return _float32(float(value)) if kind == "float" else value


def _float32(value: float) -> float:
    """The shortest decimal that is the same number in 32 bits."""
    try:
        nearest = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return value
    for digits in range(1, 10):
        short = float(f"{nearest:.{digits}g}")
        if struct.pack("f", short) == struct.pack("f", nearest):
            return short
    return value


def _typed_props(node: Primitive | Fixed) -> Props:
    """A logical type first, then the others by name."""
    props = dict(_sorted_props(node.props))
    found = logical_type(node)
    if not found:
        return tuple(props.items())
    first: dict[str, Any] = {"logicalType": found.name}
    if found.precision:
        first["precision"] = found.precision
        if found.scale:
            first["scale"] = found.scale
    return tuple({**first, **props}.items())


def _sorted_props(props: Props) -> Props:
    if not props:
        return ()
    return tuple(sorted([(key, _sorted_json(value)) for key, value in props], key=_key))


def _key(prop: tuple[str, Any]) -> bytes:
    return _utf16(prop[0])


def _sorted_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted_json(value[key]) for key in sorted(value, key=_utf16)}
    if isinstance(value, list):
        return [_sorted_json(item) for item in value]
    return value


def _utf16(text: str) -> bytes:
    """Java's order of texts."""
    return text.encode("utf-16-be", "surrogatepass")


def _alias(alias: Name, space: str) -> str:
    return f".{alias.simple}" if space and not alias.space else alias.full
