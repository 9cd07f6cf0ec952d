"""JSON text to a validated :class:`Schema`, by the rules of Java's Avro 1.12.

Stricter than the Python ``avro`` package where Java is (field names, defaults, a named type twice
in a union), and as lenient where it is lenient (the same definition written twice, forward
references, attributes with no meaning). Depth is bounded, so a hostile schema costs an error, not a
stack.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from tallymark.errors import TallymarkError
from tallymark_schema_registry.schemas.defaults import fits
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
    Props,
    Record,
    Ref,
    Schema,
    Union,
)

MAX_DEPTH: Final = 150
"""Types within types. Real schemas stay below 20; every walk over the tree recurses so deep, a few
frames a level, beneath a web server that uses some itself of the interpreter's 1,000."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Attributes with a meaning somewhere are dropped where they have none, as Java does: a "name" on an
# int does not make it another schema.
_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))


class InvalidSchemaError(TallymarkError):
    """The text is not a valid Avro schema; says what is wrong."""


def parse_schema(text: str) -> Schema:
    """Parse and validate. Raises :class:`InvalidSchemaError`, nothing else, on any text."""
    try:
        text.encode()
        tree = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        return _Parser().parse(tree)
    except UnicodeEncodeError:
        raise InvalidSchemaError("it holds half of a surrogate pair") from None
    except RecursionError:
        raise InvalidSchemaError("it is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, and an integer of more than 4,300 digits
        raise InvalidSchemaError(f"it is not JSON: {error}") from error


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is beyond a double")
    return value


class _Parser:
    """One run over one JSON tree; ``names`` grows as definitions are met."""

    def __init__(self) -> None:
        self.names: dict[Name, Named] = {}
        # Names of records whose fields are being read: usable, not yet in ``names``.
        self.open: set[Name] = set()
        self.pending: list[tuple[Field, str]] = []
        self.references: list[Ref] = []

    def parse(self, tree: Any) -> Schema:
        schema = Schema(self.node(tree, "", 0), self.names)
        for reference in self.references:
            if reference.name not in self.names:
                raise InvalidSchemaError(f'"{reference.name.full}" is not a defined name')
        # Only now, since a default may be of a type that is defined further down.
        for field, owner in self.pending:
            if not fits(schema, field.type, field.default):
                raise InvalidSchemaError(
                    f"the default of field {owner}.{field.name} does not fit its type: "
                    f"{json.dumps(field.default)[:100]}"
                )
        return schema

    def node(self, tree: Any, space: str, depth: int) -> Node:
        """Any schema. ``space`` is the enclosing namespace."""
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(tree, str):
            return self.use(tree, space)
        if isinstance(tree, list):
            return self.union(tree, space, depth)
        if isinstance(tree, dict):
            return self.complex(tree, space, depth)
        raise InvalidSchemaError(f"a type is a name, an object or a list, not {json.dumps(tree)}")

    def use(self, text: str, space: str) -> Node:
        """A type by its name: the enclosing namespace's first, then one without a namespace."""
        if text in PRIMITIVES:
            return Primitive(text)
        name = _name(text, space)
        plain = Name("", text)
        if not self.known(name) and "." not in text and self.known(plain):
            name = plain
        reference = Ref(name)
        self.references.append(reference)
        return reference

    def known(self, name: Name) -> bool:
        return name in self.names or name in self.open

    def complex(self, tree: dict[str, Any], space: str, depth: int) -> Node:
        kind = tree.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"no type: {json.dumps(tree)[:100]}")
        if kind in PRIMITIVES:
            return Primitive(kind, _props(tree, _RESERVED))
        if kind == "array":
            return Array(self.inner(tree, "items", space, depth), _props(tree, _RESERVED))
        if kind == "map":
            return Map(self.inner(tree, "values", space, depth), _props(tree, _RESERVED))
        if kind in ("record", "error"):
            return self.record(tree, kind, space, depth)
        if kind == "enum":
            return self.define(_enum(tree, _own_name(tree, space)))
        if kind == "fixed":
            return self.define(_fixed(tree, _own_name(tree, space)))
        return self.use(kind, space)

    def inner(self, tree: dict[str, Any], key: str, space: str, depth: int) -> Node:
        if key not in tree:
            raise InvalidSchemaError(f"{tree['type']} without {key}")
        return self.node(tree[key], space, depth + 1)

    def union(self, tree: list[Any], space: str, depth: int) -> Union:
        branches = tuple(self.node(branch, space, depth + 1) for branch in tree)
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError("a union directly within a union")
            kind = _branch_name(branch)
            if kind in seen:
                raise InvalidSchemaError(f"a union holds {kind} twice")
            seen.add(kind)
        return Union(branches)

    def record(self, tree: dict[str, Any], kind: str, space: str, depth: int) -> Node:
        name = _own_name(tree, space)
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"record {name.full} has no list of fields")
        self.open.add(name)
        parsed = tuple(self.field(field, name, depth) for field in fields)
        seen: set[str] = set()
        for field in parsed:
            if field.name in seen:
                raise InvalidSchemaError(f"record {name.full} has two fields {field.name}")
            seen.add(field.name)
        return self.define(
            Record(
                name,
                parsed,
                is_error=kind == "error",
                doc=_text(tree, "doc"),
                aliases=tuple(_name(alias, name.space) for alias in _aliases(tree)),
                props=_props(tree, _RESERVED),
            )
        )

    def field(self, tree: Any, owner: Name, depth: int) -> Field:
        if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
            raise InvalidSchemaError(f"record {owner.full} has a field without a name")
        name: str = tree["name"]
        _check_name(name)
        if "type" not in tree:
            raise InvalidSchemaError(f"field {owner.full}.{name} has no type")
        order = tree.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
            raise InvalidSchemaError(f"field {owner.full}.{name} has no such order: {order}")
        kind = self.node(tree["type"], owner.space, depth + 1)
        field = Field(
            name,
            kind,
            default=_default(tree.get("default", MISSING), kind),
            doc=_text(tree, "doc"),
            order=order.lower(),
            aliases=tuple(dict.fromkeys(_aliases(tree))),
            props=_props(tree, _FIELD_RESERVED),
        )
        if field.default is not MISSING:
            self.pending.append((field, owner.full))
        return field

    def define(self, named: Named) -> Named:
        if named.name.full in PRIMITIVES:
            raise InvalidSchemaError(f"a type may not be called {named.name.full}")
        if self.names.setdefault(named.name, named) != named:
            raise InvalidSchemaError(f"{named.name.full} is defined twice, differently")
        self.open.discard(named.name)
        return named


def _enum(tree: dict[str, Any], name: Name) -> Enum:
    symbols = tree.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(item, str) for item in symbols):
        raise InvalidSchemaError(f"enum {name.full} has no list of symbols")
    for symbol in symbols:
        _check_name(symbol)
    if len(set(symbols)) != len(symbols):
        raise InvalidSchemaError(f"enum {name.full} has a symbol twice")
    default = tree.get("default")
    if default is not None and default not in symbols:
        raise InvalidSchemaError(f"the default of enum {name.full} is not one of its symbols")
    return Enum(
        name,
        tuple(symbols),
        default,
        _text(tree, "doc"),
        tuple(_name(alias, name.space) for alias in _aliases(tree)),
        _props(tree, _RESERVED | {"default"}),
    )


def _fixed(tree: dict[str, Any], name: Name) -> Fixed:
    size = tree.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
        raise InvalidSchemaError(f"fixed {name.full} has no valid size")
    aliases = tuple(_name(alias, name.space) for alias in _aliases(tree))
    return Fixed(name, size, _text(tree, "doc"), aliases, _props(tree, _RESERVED))


def _own_name(tree: dict[str, Any], space: str) -> Name:
    text = tree.get("name")
    if not isinstance(text, str):
        raise InvalidSchemaError(f"{tree['type']} without a name")
    own = tree.get("namespace", space)
    return _name(text, own if isinstance(own, str) else space)


def _name(text: str, space: str) -> Name:
    """A dot in ``text`` overrides the namespace; ``.Y`` is Y without one."""
    before, dot, simple = text.rpartition(".")
    _check_name(simple)
    return Name(before if dot else space, simple)


def _check_name(text: str) -> None:
    if not _NAME.fullmatch(text):
        raise InvalidSchemaError(
            f"{json.dumps(text)[:100]} is not a name: letters, digits and _, no digit first"
        )


def _aliases(tree: dict[str, Any]) -> list[str]:
    aliases = tree.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise InvalidSchemaError("aliases must be a list of names")
    return aliases


def _default(default: Any, kind: Node) -> Any:
    # Java reads the text "1.5" as a default of a float or double, and prints it back as a number.
    if (
        isinstance(default, str)
        and isinstance(kind, Primitive)
        and kind.kind in ("float", "double")
    ):
        try:
            return _finite(default)
        except ValueError:
            return default
    return default


def _branch_name(branch: Node) -> str:
    if isinstance(branch, Primitive):
        return branch.kind
    if isinstance(branch, Ref | Record | Enum | Fixed):
        return branch.name.full
    return "array" if isinstance(branch, Array) else "map"


def _text(tree: dict[str, Any], key: str) -> str | None:
    value = tree.get(key)
    return value if isinstance(value, str) else None


def _props(tree: dict[str, Any], reserved: frozenset[str]) -> Props:
    return tuple((key, value) for key, value in tree.items() if key not in reserved)
