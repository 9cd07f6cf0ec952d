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

A definition is written where its type is met first, even if that is above the place where it was
written. Those of references are not written out: a reader of the text has them.

This is not Avro's Parsing Canonical Form, which drops docs, defaults and aliases.
"""

from __future__ import annotations

from typing import Final

from tallymark_schema_registry.schemas.budget import MAX_DEPTH, Budget
from tallymark_schema_registry.schemas.json_text import json_text, string_text
from tallymark_schema_registry.schemas.model import (
    KINDS,
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
from tallymark_schema_registry.schemas.names import InvalidSchemaError


def canonical_text(schema: Schema, budget: Budget | None = None) -> str:
    """The canonical text. Parsing it with the same references and writing it again gives the same
    text. Raises :class:`~.budget.TooLargeError` or :class:`~.names.InvalidSchemaError` (nested too
    deeply): a definition may be written within others here, although it was not."""
    return _write(schema, schema.known, budget)


def resolved_text(schema: Schema, budget: Budget | None = None) -> str:
    """The canonical text with the types of references written out (``format=resolved``): it parses
    without them. It may be far longer than any text that was sent. Raises as canonical_text."""
    return _write(schema, frozenset(), budget)


def _write(schema: Schema, known: frozenset[Name], budget: Budget | None) -> str:
    budget = budget or Budget()
    budget.doing = "to write out"
    try:
        return _Writer(schema, known, budget).node(schema.root, "", 0)
    except RecursionError:
        raise InvalidSchemaError("it is nested too deeply") from None


class _Writer:
    """One run over one schema; a definition is written where it is met first."""

    def __init__(self, schema: Schema, known: frozenset[Name], budget: Budget) -> None:
        self.names = schema.names
        self.written = set(known)
        self.budget = budget

    def node(self, node: Node, space: str, depth: int) -> str:
        """``space`` is the enclosing namespace."""
        if depth > MAX_DEPTH:
            raise InvalidSchemaError(f"written out, types are nested more than {MAX_DEPTH} deep")
        if isinstance(node, Primitive):
            if not node.props:
                return f'"{node.kind}"'
            return f'{{"type":"{node.kind}"{_props(node.props)}}}'
        if isinstance(node, Union):
            return (
                "["
                + ",".join([self.node(branch, space, depth + 1) for branch in node.branches])
                + "]"
            )
        if isinstance(node, Array):
            items = self.node(node.items, space, depth + 1)
            return f'{{"type":"array","items":{items}{_props(node.props)}}}'
        if isinstance(node, Map):
            values = self.node(node.values, space, depth + 1)
            return f'{{"type":"map","values":{values}{_props(node.props)}}}'
        if node.name in self.written:
            return string_text(self.reference(node.name, space))
        self.written.add(node.name)
        return self.definition(
            self.names[node.name] if isinstance(node, Ref) else node, space, depth
        )

    def definition(self, node: Named, space: str, depth: int) -> str:
        name = node.name
        kind = "error" if isinstance(node, Record) and node.is_error else _KIND[type(node)]
        text = f'{{"type":"{kind}","name":{string_text(name.simple)}'
        if name.space != space:
            text += f',"namespace":{string_text(name.space)}'
        if node.doc is not None:
            text += f',"doc":{string_text(node.doc)}'
        if isinstance(node, Record):
            fields = ",".join([self.field(field, name.space, depth) for field in node.fields])
            text += f',"fields":[{fields}]'
        elif isinstance(node, Enum):
            text += f',"symbols":{json_text(list(node.symbols))}'
            if node.default is not None:
                text += f',"default":{string_text(node.default)}'
        else:
            text += f',"size":{node.size}'
        text += _props(node.props)
        if node.aliases:
            text += f',"aliases":{json_text([_alias(one, name.space) for one in node.aliases])}'
        self.budget.spend(len(text) // 64)
        return text + "}"

    def field(self, field: Field, space: str, depth: int) -> str:
        text = (
            f'{{"name":{string_text(field.name)},"type":{self.node(field.type, space, depth + 1)}'
        )
        if field.doc is not None:
            text += f',"doc":{string_text(field.doc)}'
        if field.default is not MISSING:
            text += f',"default":{json_text(field.default)}'
        if field.order != "ascending":
            text += f',"order":"{field.order}"'
        if field.aliases:
            text += f',"aliases":{json_text(list(field.aliases))}'
        if field.props:
            text += _props(field.props)
        return text + "}"

    def reference(self, name: Name, space: str) -> str:
        """The shortest text that parses back to ``name`` here.

        Java shortens without looking whether another type has the short name, too; where one has,
        the full name is written here, since a schema must not change its meaning by being stored.
        """
        if name.space and name.space != space:
            return name.full
        other = Name("" if name.space else space, name.simple)
        taken = other in self.names if space else False
        if taken or (name.space and name.simple in KINDS):
            return f"{name.space}.{name.simple}"
        return name.simple


_KIND: Final = {Record: "record", Enum: "enum", Fixed: "fixed"}


def _alias(alias: Name, space: str) -> str:
    if alias.space == space:
        return alias.simple
    return f"{alias.space}.{alias.simple}"


def _props(props: Props) -> str:
    """With a comma before each."""
    return "".join([f",{string_text(key)}:{json_text(value)}" for key, value in props])
