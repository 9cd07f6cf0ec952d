"""What changed between two versions of a schema: for people, and for tools that show it.

Types are matched as a reader matches them: fields by name or alias, types of one name, branches of
unions by what they are. It says what changed, not whether that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tallymark_schema_registry.schemas.budget import NODE, Budget, TooLargeError
from tallymark_schema_registry.schemas.compatibility import MAX_SHOWN, shortened, shown
from tallymark_schema_registry.schemas.json_text import json_text
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
    Props,
    Record,
    Ref,
    Resolved,
    Schema,
    Union,
)

MAX_CHANGES: Final = 500
"""More are not looked for."""
ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
_SIGNS: Final = {ADDED: "+", REMOVED: "-", CHANGED: "~"}
_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class Change:
    """``what`` was ``action`` (ADDED, REMOVED, CHANGED) at ``place``: names of types and fields
    from the outermost on, as ``Order.lines[].price``. ``path`` is the JSON pointer to it in
    the new schema, or, of what was removed, in the old one. ``before`` and ``after`` are texts, ""
    where there is nothing."""

    action: str
    what: str
    place: str
    path: str
    before: str = ""
    after: str = ""

    def line(self) -> str:
        """For people: ``+ Order.note: field string, default ""``."""
        if self.action == CHANGED:
            return f"~ {self.place}: {self.what} {self.before or 'none'} -> {self.after or 'none'}"
        return f"{_SIGNS[self.action]} {self.place}: {self.what} {self.before or self.after}"


def diff(old: Schema, new: Schema, budget: Budget | None = None) -> list[Change]:
    """The changes, in the order of the new schema; empty: both are the same but for the order of
    attributes. :data:`MAX_CHANGES` at most. Raises :class:`~.budget.TooLargeError`."""
    budget = budget or Budget()
    budget.doing = "to compare"
    walk = _Diff(old, new, budget)
    try:
        walk.nodes(old.root, new.root, "", "")
    except RecursionError:
        raise TooLargeError("it is nested too deeply to compare") from None
    return walk.found[:MAX_CHANGES]


class _Diff:
    """One run; each pair of named types is looked at once."""

    def __init__(self, old: Schema, new: Schema, budget: Budget) -> None:
        self.old = old
        self.new = new
        self.budget = budget
        self.met: set[tuple[int, int]] = set()
        self.found: list[Change] = []

    def nodes(self, old: Node, new: Node, place: str, path: str) -> None:
        self.budget.spend(NODE)
        # Of a type that is defined twice the first definition counts: it is the one that is stored.
        old, new = _first(self.old, old), _first(self.new, new)
        if len(self.found) >= MAX_CHANGES:
            return
        if isinstance(old, Record | Enum | Fixed):
            pair = (id(old), id(new))
            if pair in self.met:
                return
            self.met.add(pair)
        if type(old) is not type(new) or (isinstance(old, Primitive) and _kind(old) != _kind(new)):
            before, after = _type(old), _type(new)
            if before == after:  # two kinds of types with one name
                before, after = f"{_word(old)} {before}", f"{_word(new)} {after}"
            self.changed("type", place or _root(new), path or "/", before, after)
            return
        if isinstance(old, Union) and isinstance(new, Union):
            self.branches(old, new, place, path)
        elif isinstance(old, Array) and isinstance(new, Array):
            self.nodes(old.items, new.items, f"{place}[]", f"{path}/items")
        elif isinstance(old, Map) and isinstance(new, Map):
            self.nodes(old.values, new.values, f"{place}{{}}", f"{path}/values")
        elif isinstance(old, Record | Enum | Fixed) and isinstance(new, Record | Enum | Fixed):
            self.named(old, new, place or new.name.simple, path)
        if not isinstance(old, Union) and not isinstance(new, Union):
            self.props(old.props, new.props, place or _root(new), path)

    def branches(self, old: Union, new: Union, place: str, path: str) -> None:
        before = {self.branch(self.old, branch): branch for branch in old.branches}
        after = {self.branch(self.new, branch): branch for branch in new.branches}
        self.budget.spend(len(before) + len(after))
        for index, (key, branch) in enumerate(after.items()):
            if key in before:
                self.nodes(before[key], branch, place, f"{path}/{index}")
            else:
                self.add(ADDED, "branch", place, f"{path}/{index}", after=_type(branch))
        for index, (key, branch) in enumerate(before.items()):
            if key not in after:
                self.add(REMOVED, "branch", place, f"{path}/{index}", before=_type(branch))
        kept = [key for key in before if key in after]
        if kept != [key for key in after if key in before]:
            order = (shown([_type(before[key]) for key in kept]), _type(new))
            self.changed("order of branches", place, path or "/", *order)

    def branch(self, schema: Schema, node: Node) -> object:
        node = _first(schema, node)
        if isinstance(node, Record | Enum | Fixed):
            return type(node), node.name
        return node.kind if isinstance(node, Primitive) else type(node)

    def named(self, old: Named, new: Named, place: str, path: str) -> None:
        self.changed("name", place, f"{path}/name", old.name.full, new.name.full)
        self.changed("doc", place, f"{path}/doc", _doc(old.doc), _doc(new.doc))
        before, after = (shown([one.full for one in each.aliases]) for each in (old, new))
        self.changed("aliases", place, f"{path}/aliases", before, after)
        if isinstance(old, Enum) and isinstance(new, Enum):
            self.symbols(old, new, place, path)
        elif isinstance(old, Fixed) and isinstance(new, Fixed):
            self.changed("size", place, f"{path}/size", str(old.size), str(new.size))
        elif isinstance(old, Record) and isinstance(new, Record):
            self.fields(old, new, place, path)

    def symbols(self, old: Enum, new: Enum, place: str, path: str) -> None:
        self.budget.spend((len(old.symbols) + len(new.symbols)) // 4)
        before, after = frozenset(old.symbols), frozenset(new.symbols)
        added = [symbol for symbol in new.symbols if symbol not in before]
        removed = [symbol for symbol in old.symbols if symbol not in after]
        path = f"{path}/symbols"
        if added:
            self.add(ADDED, "symbols", place, path, after=shown(added))
        if removed:
            self.add(REMOVED, "symbols", place, path, before=shown(removed))
        if before == after and old.symbols != new.symbols:
            self.changed("order of symbols", place, path, *map(_listed, (old.symbols, new.symbols)))
        self.changed("default", place, path, old.default or "", new.default or "")

    def fields(self, old: Record, new: Record, place: str, path: str) -> None:
        before = {field.name: (index, field) for index, field in enumerate(old.fields)}
        own = {field.name for field in new.fields}
        matched: dict[str, int] = {}
        for index, field in enumerate(new.fields):
            self.budget.spend(1 + len(field.aliases))
            aliases = [one for one in field.aliases if one not in own and one not in matched]
            name = next((one for one in (field.name, *aliases) if one in before), None)
            where, at = f"{place}.{shortened(field.name)}", f"{path}/fields/{index}"
            if name is None:
                self.add(ADDED, "field", where, at, after=_field(field))
            else:
                matched[name], was = before[name]
                self.field(was, field, where, at)
        for name, (index, field) in before.items():
            if name not in matched:
                where = f"{place}.{shortened(name)}"
                self.add(REMOVED, "field", where, f"{path}/fields/{index}", before=_field(field))
        before_names = sorted(matched, key=matched.__getitem__)
        if before_names != list(matched):
            order = (shown(before_names), shown(list(matched)))
            self.changed("order of fields", place, f"{path}/fields", *order)

    def field(self, old: Field, new: Field, place: str, path: str) -> None:
        self.changed("name", place, f"{path}/name", old.name, new.name)
        self.nodes(old.type, new.type, place, f"{path}/type")
        before, after = _default(old), _default(new)
        self.changed("default", place, f"{path}/default", before, after)
        self.changed("doc", place, f"{path}/doc", _doc(old.doc), _doc(new.doc))
        self.changed("order", place, f"{path}/order", old.order, new.order)
        before, after = _listed(old.aliases), _listed(new.aliases)
        self.changed("aliases", place, f"{path}/aliases", before, after)
        self.props(old.props, new.props, place, path)

    def props(self, old: Props, new: Props, place: str, path: str) -> None:
        if old == new:
            return
        before, after = dict(old), dict(new)
        for key in dict.fromkeys((*after, *before)):
            texts = [_json(each[key]) if key in each else "" for each in (before, after)]
            self.changed(shortened(key), place, f"{path}/{_escaped(key)}", *texts)

    def changed(self, what: str, place: str, path: str, before: str, after: str) -> None:
        if before != after:
            self.add(CHANGED, what, place, path, before, after)

    def add(
        self, action: str, what: str, place: str, path: str, before: str = "", after: str = ""
    ) -> None:
        if len(self.found) < MAX_CHANGES:
            self.found.append(Change(action, what, place, path, before, after))


def _first(schema: Schema, node: Node) -> Resolved:
    return schema.names[node.name] if isinstance(node, Ref | Record | Enum | Fixed) else node


def _kind(node: Node) -> str:
    return node.kind if isinstance(node, Primitive) else ""


def _word(node: Node) -> str:
    return type(node).__name__.lower()


def _root(node: Node) -> str:
    return node.name.simple if isinstance(node, Record | Enum | Fixed) else _type(node)


def _type(node: Node, depth: int = 2) -> str:
    """A short text for a type: what is more than ``depth`` within it is left out."""
    if isinstance(node, Primitive):
        return node.kind
    if isinstance(node, Ref | Record | Enum | Fixed):
        return shortened(node.name.full)
    if depth == 0:
        return "..."
    if isinstance(node, Array):
        return f"array of {_type(node.items, depth - 1)}"
    if isinstance(node, Map):
        return f"map of {_type(node.values, depth - 1)}"
    few = [_type(branch, depth - 1) for branch in node.branches[:MAX_SHOWN]]
    return f"[{', '.join(few)}{', ...' if len(node.branches) > MAX_SHOWN else ''}]"


def _field(field: Field) -> str:
    default = _default(field)
    return f"{_type(field.type)}, default {default}" if default else _type(field.type)


def _default(field: Field) -> str:
    return "" if field.default is MISSING else _json(field.default)


def _doc(doc: str | None) -> str:
    return "" if doc is None else _json(doc)


def _json(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _listed(texts: Iterable[str]) -> str:
    return shown(list(texts))


def _escaped(key: str) -> str:
    """As a part of a JSON pointer."""
    return shortened(key).replace("~", "~0").replace("/", "~1")
