"""The JSON of an Avro schema with every name written in full, read leniently. Pure.

What other registries store is not always what the parser takes (:mod:`..schemas.parse`), and types
of other files may be missing. So nothing is refused here that can be walked::

    {"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":"S"}]}
    ->  {"type":"record","name":"a.R","fields":[{"name":"f","type":"a.S"}]}     uses a.S
"""

from __future__ import annotations

import json
from typing import Any, Final

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
# Without a meaning on a primitive, an array or a map.
_RESERVED: Final = frozenset(
    ("doc", "fields", "name", "namespace", "size", "symbols", "aliases", "items", "values")
)


class AvroTree:
    """``tree`` is the schema with full names; ``defined`` are the names it defines, with their
    definitions; ``missing`` the names that it uses and does not define, in their order, each with
    how it is written there.

    Raises ValueError for what is no JSON, or nested too deeply to be walked."""

    def __init__(self, text: str) -> None:
        self.defined: dict[str, Any] = {}
        self._used: dict[str, str] = {}
        try:
            self.tree: Any = self._node(json.loads(text), "")
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        self.missing: dict[str, str] = {
            full: name for full, name in self._used.items() if full not in self.defined
        }

    def _node(self, tree: Any, space: str) -> Any:
        if isinstance(tree, str):
            return tree if tree in PRIMITIVES else self._use(tree, space)
        if isinstance(tree, list):
            return [self._node(branch, space) for branch in tree]
        if not isinstance(tree, dict):
            return tree
        kind = tree.get("type")
        if isinstance(kind, str) and kind in _NAMED and isinstance(tree.get("name"), str):
            return self._definition(tree, space)
        if kind == "array" or kind == "map":
            inner = "items" if kind == "array" else "values"
            kept = {name: value for name, value in tree.items() if name not in _RESERVED}
            return kept | {inner: self._node(tree.get(inner), space)}
        kept = {name: value for name, value in tree.items() if name not in _RESERVED}
        if set(kept) == {"type"}:
            return self._node(kind, space)
        return kept | {"type": self._node(kind, space)}

    def _use(self, name: str, space: str) -> str:
        full = name if "." in name or not space else f"{space}.{name}"
        # A type without a namespace, used inside of one.
        if full not in self.defined and name in self.defined:
            full = name
        self._used[full] = name
        return full

    def _definition(self, tree: dict[str, Any], space: str) -> dict[str, Any]:
        full, own = _full_name(tree, space)
        made: dict[str, Any] = {
            name: value
            for name, value in tree.items()
            if name not in ("namespace", "fields", "aliases")
        }
        made["name"] = full
        if space and not own:
            made["namespace"] = ""  # else it would be taken to be of the enclosing namespace
        if isinstance(aliases := tree.get("aliases"), list) and aliases:
            made["aliases"] = [_in_space(alias, own) for alias in aliases]
        self.defined.setdefault(full, made)
        if isinstance(fields := tree.get("fields"), list):
            made["fields"] = [self._field(one, own) for one in fields]
        return made

    def _field(self, tree: Any, space: str) -> Any:
        if not isinstance(tree, dict):
            return tree
        made = {**tree, "type": self._node(tree.get("type"), space)}
        if str(made.get("order", "")).lower() == "ascending":
            del made["order"]
        if made.get("aliases") == []:
            del made["aliases"]
        return made


def written_out(tree: Any, definitions: dict[str, Any]) -> Any:
    """``tree`` (of :class:`AvroTree`) with the definition of every type that ``definitions`` have
    and the tree only uses, where it is used first."""
    return _WriteOut(definitions).node(tree, "")


class _WriteOut:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._written: set[str] = set()

    def node(self, tree: Any, space: str) -> Any:
        if isinstance(tree, str):
            if tree in self._written or tree not in self._definitions:
                return tree
            return self.node(self._definitions[tree], space)
        if isinstance(tree, list):
            return [self.node(branch, space) for branch in tree]
        if not isinstance(tree, dict):
            return tree
        made, inside = dict(tree), space
        if tree.get("type") in _NAMED and isinstance(name := tree.get("name"), str):
            if name in self._written:
                return name
            self._written.add(name)
            inside = name.rpartition(".")[0]
            made.pop("namespace", None)
            if space and not inside:
                made["namespace"] = ""
        elif "type" in tree:
            made["type"] = self.node(tree["type"], space)
        for part in ("items", "values"):
            if part in tree:
                made[part] = self.node(tree[part], space)
        if isinstance(fields := tree.get("fields"), list):
            made["fields"] = [
                {**one, "type": self.node(one.get("type"), inside)}
                if isinstance(one, dict)
                else one
                for one in fields
            ]
        return made


def _full_name(tree: dict[str, Any], space: str) -> tuple[str, str]:
    """The full name of a definition, and its namespace."""
    name = tree["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    own = tree.get("namespace")
    own = own if isinstance(own, str) else space
    return (f"{own}.{name}" if own else name), own


def _in_space(alias: Any, space: str) -> Any:
    if not isinstance(alias, str) or "." in alias or not space:
        return alias
    return f"{space}.{alias}"
