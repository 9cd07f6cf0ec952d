"""The tree of an Avro schema.

Nothing changes a node once it is parsed (they are not frozen: it takes three times as long to make
a frozen one). A named type is in the tree where it was written; every other use of it is a
:class:`Ref`, resolved through :attr:`Schema.names`, so recursive schemas are trees too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
KINDS: Final = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}

Props: TypeAlias = tuple[tuple[str, Any], ...]
"""Attributes that Avro gives no meaning, logical types among them, in the order written."""


class Missing:
    """The type of :data:`MISSING`: JSON null is a default, so None cannot say "no default"."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Name(NamedTuple):
    """``space`` is the namespace, "" for none; ``simple`` the part after the last dot. A tuple,
    since every use of a name is looked up by it."""

    space: str
    simple: str

    @property
    def full(self) -> str:
        return f"{self.space}.{self.simple}" if self.space else self.simple


@dataclass(slots=True)
class Ref:
    """A named type, by its name."""

    name: Name


@dataclass(slots=True)
class Primitive:
    kind: str
    props: Props = ()


@dataclass(slots=True)
class Array:
    items: Node
    props: Props = ()


@dataclass(slots=True)
class Map:
    values: Node
    props: Props = ()


@dataclass(slots=True)
class Union:
    branches: tuple[Node, ...]


@dataclass(slots=True)
class Enum:
    name: Name
    symbols: tuple[str, ...]
    default: str | None = None
    doc: str | None = None
    aliases: tuple[Name, ...] = ()
    props: Props = ()


@dataclass(slots=True)
class Fixed:
    """``size`` in bytes."""

    name: Name
    size: int
    doc: str | None = None
    aliases: tuple[Name, ...] = ()
    props: Props = ()


@dataclass(slots=True)
class Field:
    """``default`` is JSON or MISSING; ``order`` is ascending, descending or ignore."""

    name: str
    type: Node
    default: Any = MISSING
    doc: str | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    props: Props = ()


@dataclass(slots=True)
class Record:
    name: Name
    fields: tuple[Field, ...]
    is_error: bool = False
    doc: str | None = None
    aliases: tuple[Name, ...] = ()
    props: Props = ()


PLAIN: Final = {kind: Primitive(kind) for kind in sorted(PRIMITIVES)}
"""The primitives without attributes: all schemas have the same ones."""
PLAIN_PAIRS: Final = {
    (one, other): Union((one_node, other_node))
    for one, one_node in PLAIN.items()
    for other, other_node in PLAIN.items()
    if one != other
}
"""And the unions of two of them: most unions are a type and null."""

Named: TypeAlias = Enum | Fixed | Record
Resolved: TypeAlias = Primitive | Array | Map | Union | Enum | Fixed | Record
Node: TypeAlias = Ref | Resolved


@dataclass(frozen=True, slots=True)
class Schema:
    """``root`` is the tree, ``names`` every named type that it may use: those defined in it, and
    those of the schemas that it refers to and of theirs. ``known`` are the names of these schemas
    themselves: a reader of the text has them too, so it does not write them out.

    ``size`` counts the characters of all the texts that it was made of, with those of references as
    often as they are referred to. It takes 3 to 10 times that in memory: a cache must count so,
    since a text of 100 characters may keep a megabyte of others alive."""

    root: Node
    names: dict[Name, Named]
    known: frozenset[Name] = frozenset()
    size: int = 0

    def resolve(self, node: Node) -> Resolved:
        """The node itself, or the type that a :class:`Ref` names."""
        return self.names[node.name] if isinstance(node, Ref) else node
