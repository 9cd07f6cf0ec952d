"""JSON text to a validated :class:`Schema`, by the rules of Java's Avro 1.12.

Stricter than the Python ``avro`` package where Java is (field names, defaults, a named type twice
in a union), and as lenient where it is lenient (the same definition written twice, forward
references, attributes with no meaning). Depth, the length of names and the work altogether
(:mod:`.budget`) are bounded, so a hostile schema costs an error, not a stack or a minute.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Final

from tallymark_schema_registry.schemas.budget import NODE, Budget
from tallymark_schema_registry.schemas.defaults import DefaultCheck
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
from tallymark_schema_registry.schemas.names import (
    InvalidSchemaError,
    aliases_of,
    check_name,
    enum_of,
    fixed_of,
    name_of,
    own_name,
    text_of,
)

MAX_DEPTH: Final = 150
"""Types within types. Real schemas stay below 20; every walk over the tree recurses so deep, a few
frames a level, beneath a web server that uses some itself of the interpreter's 1,000."""
MAX_VALUE_DEPTH: Final = 50
"""Lists and objects within one another in defaults and attributes."""
# Attributes with a meaning somewhere are dropped where they have none, as Java does: a "name" on an
# int does not make it another schema.
_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))


def parse_schema(text: str, budget: Budget | None = None) -> Schema:
    """Parse and validate. On any text it raises :class:`InvalidSchemaError` or, where ``budget``
    has not enough for it, :class:`~.budget.TooLargeError`; nothing else."""
    budget = budget or Budget()
    budget.doing = "to parse"
    budget.spend(len(text) // 32)
    try:
        text.encode()
        tree = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        return _Parser(budget).parse(tree)
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

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.names: dict[Name, Named] = {}
        # Names of records whose fields are being read: usable, not yet in ``names``.
        self.open: set[Name] = set()
        self.pending: list[tuple[Field, Name]] = []
        self.references: list[Ref] = []

    def parse(self, tree: Any) -> Schema:
        schema = Schema(self.node(tree, "", 0), self.names)
        for reference in self.references:
            if reference.name not in self.names:
                raise InvalidSchemaError(f'"{reference.name.full}" is not a defined name')
        # Only now, since a default may be of a type that is defined further down.
        self.budget.doing = "to check its defaults"
        defaults = DefaultCheck(schema, self.budget)
        for field, owner in self.pending:
            if not defaults.fits(field.type, field.default):
                raise InvalidSchemaError(
                    f"the default of field {owner.full}.{field.name} does not fit its type: "
                    f"{json.dumps(field.default)[:100]}"
                )
        return schema

    def node(self, tree: Any, space: str, depth: int) -> Node:
        """Any schema. ``space`` is the enclosing namespace."""
        self.budget.spend(NODE)
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(tree, str):
            return self.use(tree, space)
        if isinstance(tree, list):
            return self.union(tree, space, depth)
        if isinstance(tree, dict):
            return self.complex(tree, space, depth)
        raise InvalidSchemaError(
            f"a type is a name, an object or a list, not {json.dumps(tree)[:100]}"
        )

    def use(self, text: str, space: str) -> Node:
        """A type by its name: the enclosing namespace's first, then one without a namespace."""
        if text in PRIMITIVES:
            return Primitive(text)
        name = name_of(text, space)
        plain = Name("", text)
        if not self.known(name) and "." not in text and self.known(plain):
            name = plain
        reference = Ref(name)
        self.references.append(reference)
        return reference

    def known(self, name: Name) -> bool:
        return name in self.names or name in self.open

    def named(self, tree: dict[str, Any], kind: str, space: str) -> Node:
        before = self.budget.left
        name = own_name(tree, space)
        props = self.props(tree, _RESERVED | ({"default"} if kind == "enum" else set()))
        make = enum_of if kind == "enum" else fixed_of
        made = make(tree, name, props)
        if isinstance(made, Enum):
            self.budget.spend(len(made.symbols) // 8)
        return self.define(made, before - self.budget.left)

    def complex(self, tree: dict[str, Any], space: str, depth: int) -> Node:
        kind = tree.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"no type: {json.dumps(tree)[:100]}")
        if kind in PRIMITIVES:
            return Primitive(kind, self.props(tree, _RESERVED))
        if kind == "array":
            return Array(self.inner(tree, "items", space, depth), self.props(tree, _RESERVED))
        if kind == "map":
            return Map(self.inner(tree, "values", space, depth), self.props(tree, _RESERVED))
        if kind in ("record", "error"):
            return self.record(tree, kind, space, depth)
        if kind in ("enum", "fixed"):
            return self.named(tree, kind, space)
        return self.use(kind, space)

    def inner(self, tree: dict[str, Any], key: str, space: str, depth: int) -> Node:
        if key not in tree:
            raise InvalidSchemaError(f"{tree['type']} without {key}")
        return self.node(tree[key], space, depth + 1)

    def union(self, tree: list[Any], space: str, depth: int) -> Union:
        branches = tuple(self.node(branch, space, depth + 1) for branch in tree)
        seen: set[str | Name] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError("a union directly within a union")
            kind = _branch_name(branch)
            if kind in seen:
                shown = kind.full if isinstance(kind, Name) else kind
                raise InvalidSchemaError(f"a union holds {shown} twice")
            seen.add(kind)
        return Union(branches)

    def record(self, tree: dict[str, Any], kind: str, space: str, depth: int) -> Node:
        name = own_name(tree, space)
        before = self.budget.left
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
        record = Record(
            name,
            parsed,
            is_error=kind == "error",
            doc=text_of(tree, "doc"),
            aliases=tuple(name_of(alias, name.space) for alias in aliases_of(tree)),
            props=self.props(tree, _RESERVED),
        )
        return self.define(record, before - self.budget.left)

    def field(self, tree: Any, owner: Name, depth: int) -> Field:
        if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
            raise InvalidSchemaError(f"record {owner.full} has a field without a name")
        name: str = tree["name"]
        check_name(name)
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
            doc=text_of(tree, "doc"),
            order=order.lower(),
            aliases=tuple(dict.fromkeys(aliases_of(tree))),
            props=self.props(tree, _FIELD_RESERVED),
        )
        self.budget.spend(NODE)
        if field.default is not MISSING:
            self.value(field.default)
            self.pending.append((field, owner))
        return field

    def define(self, named: Named, steps: int) -> Named:
        """``steps`` is what reading it took, hence what it takes to compare it."""
        if named.name.full in PRIMITIVES:
            raise InvalidSchemaError(f"a type may not be called {named.name.full}")
        first = self.names.setdefault(named.name, named)
        if first is not named:
            self.budget.spend(steps)
            if first != named:
                raise InvalidSchemaError(f"{named.name.full} is defined twice, differently")
        self.open.discard(named.name)
        return named

    def props(self, tree: dict[str, Any], reserved: frozenset[str]) -> Props:
        """What Avro gives no meaning, as deep as every walk can follow."""
        found = tuple((key, value) for key, value in tree.items() if key not in reserved)
        for _, value in found:
            self.value(value)
        return found

    def value(self, value: Any) -> None:
        """Refuse a default or an attribute that is nested too deeply."""
        depth, level = 0, [value]
        while level := [one for one in level if isinstance(one, list | dict) and one]:
            depth += 1
            if depth > MAX_VALUE_DEPTH:
                raise InvalidSchemaError(
                    f"a default or an attribute is nested more than {MAX_VALUE_DEPTH} deep"
                )
            level = [item for one in level for item in _items(one)]
            self.budget.spend(len(level) // 4)


def _items(value: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values()


def _branch_name(branch: Node) -> str | Name:
    if isinstance(branch, Primitive):
        return branch.kind
    if isinstance(branch, Ref | Record | Enum | Fixed):
        return branch.name
    return "array" if isinstance(branch, Array) else "map"


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
