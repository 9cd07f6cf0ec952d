"""Checks of a schema, made before a decoder reads bytes of other programs with it.

Two measured facts of fastavro make this necessary: a few thousand levels of a recursive type
overflow the C stack and end the process, and five bytes can announce billions of array items that
take no bytes themselves, each a Python object.
"""

from __future__ import annotations

from typing import Any, Final

from tallymark.serialization.errors import SerializationError

MAX_DEPTH: Final = 150
"""Types within types; what the registry accepts as well."""
MAX_JSON_DEPTH: Final = 4 * MAX_DEPTH
"""Braces and brackets within each other: a record in a union in a field takes four a level."""


def check_json_depth(tree: Any, what: str) -> None:
    """Raises if ``tree`` holds lists and dicts more than MAX_JSON_DEPTH deep. No recursion."""
    level: list[Any] = [tree]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise SerializationError(f"the {what} is nested too deeply")


class Inspection:
    """Facts of one schema, given as fastavro parsed it (all names full).

    ``recursive``: some type contains itself. Raises SerializationError on arrays of items that
    take no bytes, and on types nested too deeply.
    """

    def __init__(self, parsed: Any) -> None:
        self.recursive = False
        self._open: set[str] = set()
        self._least: dict[str, int] = {}
        self._size(parsed, 0)

    def _size(self, node: Any, depth: int) -> int:
        """0 if a datum of this type can take no bytes at all, else 1."""
        if depth > MAX_DEPTH:
            raise SerializationError(f"the schema's types are nested more than {MAX_DEPTH} deep")
        if isinstance(node, str):
            return self._named(node)
        if isinstance(node, list):
            for branch in node:
                self._size(branch, depth + 1)
            return 1
        kind = node["type"]
        if kind == "array":
            if self._size(node["items"], depth + 1) == 0:
                raise SerializationError("arrays whose items take no bytes are not decoded")
        elif kind == "map":
            self._size(node["values"], depth + 1)
        elif kind in ("record", "error"):
            return self._record(node, depth)
        elif kind == "fixed":
            self._least[node["name"]] = min(1, node["size"])
            return self._least[node["name"]]
        elif isinstance(kind, dict | list) or kind == "null":
            return self._size(kind, depth + 1)
        return 1

    def _named(self, name: str) -> int:
        if name in self._open:
            self.recursive = True
            # A record that is made of nothing but itself has no datum of finite length.
            return 1
        return 0 if name == "null" else self._least.get(name, 1)

    def _record(self, node: dict[str, Any], depth: int) -> int:
        name = node["name"]
        self._open.add(name)
        size = max([self._size(field["type"], depth + 1) for field in node["fields"]], default=0)
        self._open.discard(name)
        self._least[name] = size
        return size
