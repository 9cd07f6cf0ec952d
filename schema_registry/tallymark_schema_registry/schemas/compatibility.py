"""Can a reader with one schema read what a writer wrote with another? (Avro, Schema Resolution.)

Our own walk rather than ``avro.compatibility``: that one compares an alias without a namespace by
its raw text, reads an alias given as text as a list of letters, and answers with sets of messages
that no longer say which message belongs to which place. Where both speak they agree; a test holds
it.

Rules as in Java's ``SchemaCompatibility``: int -> long -> float -> double and string <-> bytes are
promotions; named types match by their name without namespace, or by an alias of the reader; fields
by name or alias; a field the writer does not have needs a default; an enum may lack symbols only if
the reader's has a default. Logical types, docs and order play no part.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from tallymark_schema_registry.schemas.budget import NODE, Budget, TooLargeError
from tallymark_schema_registry.schemas.matching import (
    PROMOTIONS,
    UnionIndex,
    is_plain_pair,
    written_as,
)
from tallymark_schema_registry.schemas.model import (
    MISSING,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Node,
    Primitive,
    Record,
    Ref,
    Schema,
    Union,
)

MAX_REASONS: Final = 100
"""Reasons of one comparison; more are not looked for: one of them is enough to refuse it."""
MAX_SHOWN: Final = 20
"""Names in one reason."""


class Incompatibility(NamedTuple):
    """One reason. ``kind`` is the rule, ``path`` a JSON pointer into the reader's schema (each type
    written where it is used), ``info`` the culprit. ``fix`` says what to change in the reader's
    schema, ``writer_fix`` what to change in the writer's: a user who registers a schema can change
    only the new one."""

    kind: str
    path: str
    text: str
    info: str
    fix: str = ""
    writer_fix: str = ""


Found: TypeAlias = tuple[Incompatibility, ...]
_NONE: Final[Found] = ()


def incompatibilities(
    reader: Schema, writer: Schema, budget: Budget | None = None
) -> list[Incompatibility]:
    """Why ``reader`` cannot read data of ``writer``, :data:`MAX_REASONS` at most; empty: it can.

    Raises :class:`~.budget.TooLargeError` where that takes more than ``budget`` has.
    """
    check = _Check(reader, writer, budget or Budget())
    check.budget.doing = "to compare"
    try:
        # The same pair of types in two places is told once.
        return list(dict.fromkeys(check.nodes(reader.root, writer.root, "")))
    except RecursionError:
        raise TooLargeError("it is nested too deeply to compare") from None


class _Check:
    """One comparison. Named types are compared once a pair; one met again within itself holds."""

    def __init__(self, reader: Schema, writer: Schema, budget: Budget) -> None:
        self.reader = reader
        self.writer = writer
        self.budget = budget
        self.memo: dict[tuple[int, int], Found] = {}
        self.symbols: dict[int, frozenset[str]] = {}
        self.unions: dict[int, UnionIndex] = {}

    def nodes(self, reader: Node, writer: Node, path: str) -> Found:
        self.budget.spend()
        if isinstance(reader, Ref):
            reader = self.reader.names[reader.name]
        if isinstance(writer, Ref):
            writer = self.writer.names[writer.name]
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            return _primitives(reader, writer, path)
        if isinstance(reader, Record | Enum | Fixed) and isinstance(writer, Record | Enum | Fixed):
            return self.named(reader, writer, path)
        return self.unnamed(reader, writer, path)

    def named(self, reader: Named, writer: Named, path: str) -> Found:
        """Only named types can be met again."""
        pair = (id(reader), id(writer))
        found = self.memo.get(pair)
        if found is None:
            self.budget.spend(NODE)
            self.memo[pair] = ()
            found = self.memo[pair] = self.compare(reader, writer, path)
            self.budget.spend(NODE * len(found))
        return found

    def compare(self, reader: Named, writer: Named, path: str) -> Found:
        if isinstance(reader, Record) and isinstance(writer, Record):
            return _name(reader, writer, path) + self.fields(reader, writer, path)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _name(reader, writer, path) + self.enums(reader, writer, path)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _name(reader, writer, path) + _size(reader, writer, path)
        return _mismatch(reader, writer, path)

    def unnamed(self, reader: Node, writer: Node, path: str) -> Found:
        if isinstance(writer, Union):
            if reader is writer and is_plain_pair(reader):
                return ()
            found: Found = ()
            for branch in writer.branches:
                found += self.nodes(reader, branch, path)
                if len(found) >= MAX_REASONS:
                    break
            return found[:MAX_REASONS]
        if isinstance(reader, Union):
            return self.union(reader, writer, path)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.nodes(reader.items, writer.items, f"{path}/items")
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.nodes(reader.values, writer.values, f"{path}/values")
        return _mismatch(reader, writer, path)

    def union(self, reader: Union, writer: Node, path: str) -> Found:
        index = self.unions.get(id(reader))
        if index is None:
            index = self.unions[id(reader)] = UnionIndex(self.reader, reader, self.budget)
        nearest, reasons = -1, _NONE
        for place, branch in index.candidates(writer):
            found = self.nodes(branch, writer, f"{path}/{place}")
            if not found:
                return ()
            if nearest < 0 and not isinstance(branch, Primitive):
                nearest, reasons = place, found
        return (_no_branch(writer, path, nearest), *reasons)[:MAX_REASONS]

    def fields(self, reader: Record, writer: Record, path: str) -> Found:
        found: Found = ()
        self.budget.spend(len(writer.fields))
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            self.budget.spend(1 + len(field.aliases))
            place = f"{path}/fields/{index}"
            names = written_as(field, written)
            if len(names) > 1:
                found += (_ambiguous(field, names, place),)
            elif names:
                found += self.nodes(field.type, written[names[0]].type, f"{place}/type")
            elif field.default is MISSING:
                found += (_no_default(field, place),)
            if len(found) >= MAX_REASONS:
                break
        return found[:MAX_REASONS]

    def enums(self, reader: Enum, writer: Enum, path: str) -> Found:
        if reader.default is not None:
            return ()
        own = self.symbols.get(id(reader))
        if own is None:
            self.budget.spend(len(reader.symbols) // 8)
            own = self.symbols[id(reader)] = frozenset(reader.symbols)
        self.budget.spend(len(writer.symbols) // 8)
        lacking = [symbol for symbol in writer.symbols if symbol not in own]
        if not lacking:
            return ()
        return (_no_symbols(reader, lacking, f"{path}/symbols"),)


def _primitives(reader: Primitive, writer: Primitive, path: str) -> Found:
    if reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
        return ()
    return _mismatch(reader, writer, path)


def _mismatch(reader: Node, writer: Node, path: str) -> Found:
    return (
        Incompatibility(
            "TYPE_MISMATCH",
            path or "/",
            f"the reader expects {_kind(reader)}, the writer wrote {_kind(writer)}",
            _kind(writer),
            fix=f"keep {_kind(writer)}, or make it a union of both types",
            writer_fix=f"keep {_kind(reader)}, or add a field of another name",
        ),
    )


def _no_branch(writer: Node, path: str, nearest: int) -> Incompatibility:
    """``nearest`` is the place of the branch that was meant, if there is one: of the same name, or
    an array or a map as the writer's. What is wrong with it follows this."""
    kind = _kind(writer)
    fix = f"add {kind} to the union"
    if nearest >= 0:
        fix = f"change its branch {nearest} so that it reads {kind}"
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        path or "/",
        f"the reader's union has no branch that takes {kind}",
        kind,
        fix=fix,
        writer_fix=f"leave {kind} out, or as it was, or add a field of another name",
    )


def _no_default(field: Field, place: str) -> Incompatibility:
    name = shortened(field.name)
    return Incompatibility(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        place,
        f"the reader's field '{field.name}' has no default, and the writer does not have it",
        field.name,
        fix=f"add `default` to field '{name}'; if it was renamed, add its old name to `aliases`",
        writer_fix=f"keep field '{name}'; it can be left out once it has had a `default`",
    )


def _ambiguous(field: Field, names: list[str], place: str) -> Incompatibility:
    return Incompatibility(
        "AMBIGUOUS_FIELD",
        place,
        f"field {field.name} matches several of the writer's: {shown(names)}",
        field.name,
        fix=f"leave all but one of {shown(names)} out of its name and `aliases`",
        writer_fix=f"have only one field of {shown(names)}",
    )


def _no_symbols(reader: Enum, lacking: list[str], place: str) -> Incompatibility:
    symbols = shown(lacking)
    return Incompatibility(
        "MISSING_ENUM_SYMBOLS",
        place,
        f"the reader's enum lacks {symbols} and has no default",
        symbols,
        fix=f"add {symbols} to `symbols`, or a `default` to enum {shortened(reader.name.full)}",
        writer_fix=f"leave {symbols} out until the enum of all readers has a `default`",
    )


def _name(reader: Named, writer: Named, path: str) -> Found:
    if reader.name.simple == writer.name.simple or writer.name in reader.aliases:
        return ()
    mine, theirs = shortened(reader.name.full), shortened(writer.name.full)
    return (
        Incompatibility(
            "NAME_MISMATCH",
            f"{path}/name",
            f"the reader's {reader.name.full} has no alias {writer.name.full}",
            writer.name.full,
            fix=f"add {theirs} to the `aliases` of {mine}",
            writer_fix=f"keep the name {mine}",
        ),
    )


def _size(reader: Fixed, writer: Fixed, path: str) -> Found:
    if reader.size == writer.size:
        return ()
    return (
        Incompatibility(
            "FIXED_SIZE_MISMATCH",
            f"{path}/size",
            f"the reader's fixed has {reader.size} bytes, the writer's {writer.size}",
            str(writer.size),
            fix=f"keep size {writer.size}, or add a type of another name",
            writer_fix=f"keep size {reader.size}, or add a type of another name",
        ),
    )


def shortened(name: str) -> str:
    """A name is repeated in a fix; two long ones are enough."""
    return name if len(name) <= 200 else f"{name[:200]}..."


def shown(names: list[str]) -> str:
    """The first of the names: an answer has a bounded length, whatever it is about."""
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return ", ".join(names[:MAX_SHOWN]) + more


def _kind(node: Node) -> str:
    if isinstance(node, Primitive):
        return node.kind
    if isinstance(node, Record | Enum | Fixed):
        return f"{type(node).__name__.lower()} {node.name.full}"
    return type(node).__name__.lower()
