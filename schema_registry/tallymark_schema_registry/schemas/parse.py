"""JSON text to a validated :class:`Schema`, by the rules of Java's Avro 1.12.

Stricter than the Python ``avro`` package where Java is (field names, defaults, a named type twice
in a union), and as lenient where it is lenient (the same definition written twice, forward
references, attributes with no meaning). Depth, the length of names and the work altogether
(:mod:`.budget`) are bounded, so a hostile schema costs an error, not a stack or a minute.

What is sent is checked; what is stored is only read. A server with other rules took it once, and
a default that does not fit in one old version must not refuse every further schema of its subject.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from tallymark_schema_registry.schemas.budget import MAX_DEPTH, NODE, Budget
from tallymark_schema_registry.schemas.defaults import DefaultCheck
from tallymark_schema_registry.schemas.json_tree import check_depth, number_of, read_json
from tallymark_schema_registry.schemas.model import (
    PLAIN,
    PLAIN_PAIRS,
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
    type_aliases,
)
from tallymark_schema_registry.schemas.references import is_same, known_types

# Attributes with a meaning somewhere are dropped where they have none, as Java does: a "name" on an
# int does not make it another schema.
_RESERVED: Final = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED: Final = _RESERVED | {"default"}
_FIELD_RESERVED: Final = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS: Final = frozenset(("ascending", "descending", "ignore"))


def parse_schema(
    text: str,
    budget: Budget | None = None,
    references: Sequence[Schema] = (),
    stored: bool = False,
) -> Schema:
    """Parse and validate.

    ``references`` are the schemas that this one refers to, parsed; they bring their own references
    with them. ``stored`` says that the text is a version that is there already: names are any text,
    and defaults, orders, aliases and symbols that are wrong do not matter.

    On any text it raises :class:`InvalidSchemaError` or, where ``budget`` has not enough for it,
    :class:`~.budget.TooLargeError`; nothing else."""
    budget = budget or Budget()
    budget.doing = "to parse"
    budget.spend(len(text) // 32)
    try:
        size = len(text) + sum(reference.size for reference in references)
        return _Parser(budget, references, stored).parse(read_json(text, stored), size)
    except RecursionError:
        raise InvalidSchemaError("it is nested too deeply") from None


class _Parser:
    """One run over one JSON tree; ``names`` grows as definitions are met."""

    def __init__(self, budget: Budget, references: Sequence[Schema], stored: bool) -> None:
        self.budget = budget
        self.stored = stored
        self.names, self.known_to_all = known_types(references, budget, stored)
        # Names of records whose fields are being read: usable, not yet in ``names``.
        self.open: set[Name] = set()
        self.pending: list[tuple[Field, Name]] = []
        self.references: list[Ref] = []

    def parse(self, tree: Any, size: int) -> Schema:
        root = self.node(tree, "", 0)
        for reference in self.references:
            if reference.name not in self.names:
                raise InvalidSchemaError(f'"{reference.name.full}" is not a defined name')
        # A text that only names or repeats a type of a reference is that type.
        if isinstance(root, Ref | Record | Enum | Fixed):
            root = self.names[root.name]
        schema = Schema(root, self.names, self.known_to_all, size)
        if not self.stored:
            self.check_defaults(schema)
        return schema

    def check_defaults(self, schema: Schema) -> None:
        # Only at the end, since a default may be of a type that is defined further down.
        self.budget.doing = "to check its defaults"
        defaults = DefaultCheck(schema, self.budget)
        for field, owner in self.pending:
            if not defaults.fits_field(field):
                raise InvalidSchemaError(
                    f"the default of field {owner.full}.{field.name} does not fit its type: "
                    f"{json.dumps(field.default)[:100]}"
                )

    def node(self, tree: Any, space: str, depth: int) -> Node:
        """Any schema. ``space`` is the enclosing namespace."""
        self.budget.spend(NODE)
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(tree, str):
            return self.use(tree, space)
        if isinstance(tree, dict):
            return self.complex(tree, space, depth)
        if isinstance(tree, list):
            return self.union(tree, space, depth)
        raise InvalidSchemaError(
            f"a type is a name, an object or a list, not {json.dumps(tree)[:100]}"
        )

    def use(self, text: str, space: str) -> Node:
        """A type by its name: the enclosing namespace's first, then one without a namespace."""
        plain = PLAIN.get(text)
        if plain:
            return plain
        name = name_of(text, space, self.stored)
        bare = Name("", text)
        if not self.is_known(name) and "." not in text and self.is_known(bare):
            name = bare
        reference = Ref(name)
        self.references.append(reference)
        return reference

    def is_known(self, name: Name) -> bool:
        return name in self.names or name in self.open

    def complex(self, tree: dict[str, Any], space: str, depth: int) -> Node:
        kind = tree.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"no type: {json.dumps(tree)[:100]}")
        if kind in PRIMITIVES:
            props = self.props(tree, _RESERVED)
            return Primitive(kind, props) if props else PLAIN[kind]
        if kind == "array":
            return Array(self.inner(tree, "items", space, depth), self.props(tree, _RESERVED))
        if kind == "map":
            return Map(self.inner(tree, "values", space, depth), self.props(tree, _RESERVED))
        if kind in ("record", "error"):
            return self.record(tree, kind, space, depth)
        if kind in ("enum", "fixed"):
            return self.enum_or_fixed(tree, kind, space)
        return self.use(kind, space)

    def inner(self, tree: dict[str, Any], key: str, space: str, depth: int) -> Node:
        if key not in tree:
            raise InvalidSchemaError(f"{tree['type']} without {key}")
        return self.node(tree[key], space, depth + 1)

    def union(self, tree: list[Any], space: str, depth: int) -> Union:
        if len(tree) == 2 and isinstance(tree[0], str) and isinstance(tree[1], str):
            pair = PLAIN_PAIRS.get((tree[0], tree[1]))
            if pair:
                self.budget.spend(NODE)
                return pair
        branches = tuple([self.node(branch, space, depth + 1) for branch in tree])
        seen: set[str | Name] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError("a union directly within a union")
            kind = _branch_name(branch)
            if kind in seen and not self.stored:
                shown = kind.full if isinstance(kind, Name) else kind
                raise InvalidSchemaError(f"a union holds {shown} twice")
            seen.add(kind)
        return Union(branches)

    def enum_or_fixed(self, tree: dict[str, Any], kind: str, space: str) -> Node:
        name = own_name(tree, space, self.stored)
        made: Enum | Fixed
        if kind == "enum":
            made = enum_of(tree, name, self.props(tree, _ENUM_RESERVED), self.stored)
            self.budget.spend(len(made.symbols) // 8)
        else:
            made = fixed_of(tree, name, self.props(tree, _RESERVED), self.stored)
        return self.define(made)

    def record(self, tree: dict[str, Any], kind: str, space: str, depth: int) -> Node:
        name = own_name(tree, space, self.stored)
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"record {name.full} has no list of fields")
        self.open.add(name)
        parsed: dict[str, Field] = {}
        for tree_of_field in fields:
            field = self.field(tree_of_field, name, depth)
            if parsed.setdefault(field.name, field) is not field and not self.stored:
                raise InvalidSchemaError(f"record {name.full} has two fields {field.name}")
        record = Record(
            name,
            tuple(parsed.values()),
            is_error=kind == "error",
            doc=text_of(tree, "doc"),
            aliases=type_aliases(tree, name, self.stored),
            props=self.props(tree, _RESERVED),
        )
        return self.define(record)

    def field(self, tree: Any, owner: Name, depth: int) -> Field:
        if not isinstance(tree, dict) or not isinstance(name := tree.get("name"), str):
            raise InvalidSchemaError(f"record {owner.full} has a field without a name")
        check_name(name, self.stored)
        if "type" not in tree:
            raise InvalidSchemaError(f"field {owner.full}.{name} has no type")
        kind = self.node(tree["type"], owner.space, depth + 1)
        self.budget.spend(NODE)
        field = Field(name, kind)
        # Most fields have few of these.
        if "order" in tree:
            field.order = self.order(tree["order"], owner, name)
        if "doc" in tree:
            field.doc = text_of(tree, "doc")
        if "aliases" in tree:
            field.aliases = tuple(dict.fromkeys(aliases_of(tree, self.stored)))
        if not tree.keys() <= _FIELD_RESERVED:
            field.props = self.props(tree, _FIELD_RESERVED)
        if "default" in tree:
            self.default(tree["default"], field, owner)
        return field

    def default(self, value: Any, field: Field, owner: Name) -> None:
        check_depth(value, self.budget)
        field.default = value
        kind = field.type.kind if isinstance(field.type, Primitive) else ""
        if isinstance(value, str) and kind in ("float", "double"):
            # Java reads the text "1.5" as a default of these, and prints a number.
            number = number_of(value)
            field.default = value if number is None else number
        self.pending.append((field, owner))

    def order(self, order: Any, owner: Name, field: str) -> str:
        if isinstance(order, str) and order.lower() in _ORDERS:
            return order.lower()
        if self.stored:
            return "ascending"
        raise InvalidSchemaError(f"field {owner.full}.{field} has no such order: {order}")

    def define(self, named: Named) -> Named:
        if named.name.full in PRIMITIVES:
            raise InvalidSchemaError(f"a type may not be called {named.name.full}")
        first = self.names.setdefault(named.name, named)
        self.open.discard(named.name)
        if first is not named and not is_same(first, named, self.budget):
            if not self.stored:
                raise InvalidSchemaError(f"{named.name.full} is defined twice, differently")
            return first
        return named

    def props(self, tree: dict[str, Any], reserved: frozenset[str]) -> Props:
        """What Avro gives no meaning, as deep as every walk can follow."""
        if tree.keys() <= reserved:
            return ()
        found = tuple((key, value) for key, value in tree.items() if key not in reserved)
        for _, value in found:
            check_depth(value, self.budget)
        return found


def _branch_name(branch: Node) -> str | Name:
    if isinstance(branch, Primitive):
        return branch.kind
    if isinstance(branch, Ref | Record | Enum | Fixed):
        return branch.name
    return "array" if isinstance(branch, Array) else "map"
