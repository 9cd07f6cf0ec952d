"""Random schemas that Java and we are asked about, half of them with something wrong.

The same seed gives the same schemas. Names are few, so that two schemas often share them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

from avro_java import Case

_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMES: Final = ("R", "S", "T", "U", "E", "F", "record", "fixed")
_SPACES: Final = ("", "n", "n", "n.m")
_BAD_SPACES: Final = ("foo-bar.x", "a..b", ".n", "n.", "1x", "é", "n.o-p")
_BAD_NAMES: Final = ("a-b", "1x", "é", "", "a b", "int", "n.a-b")
_FIELDS: Final = ("a", "b", "c", "d_1", "_e")
_SYMBOLS: Final[tuple[str, ...]] = ("A", "B", "C", "_D1")
_LOGICAL: Final = (
    {"logicalType": "date"},
    {"logicalType": "timestamp-millis"},
    {"logicalType": "decimal", "precision": 4, "scale": 2},
    {"logicalType": "decimal", "scale": 2, "precision": 4},
    {"logicalType": "decimal", "precision": 0},
    {"x": 1, "logicalType": "uuid"},
)
_PROPS: Final = (
    {"x": 1},
    {"y": {"b": [1, 2.5, None], "a": "é\n"}, "x": True},
    {"z": 1e30, "name": "dropped", "items": "dropped"},
    {"big": 2**60, "size": 3, "symbols": ["dropped"]},
    {"doc": 5, "fields": 1.10},
    {"default": 1},
    {"namespace": "dropped"},
)
_DOCS: Final = ("what it is", "", 'with "quotes" and \\ and \u2028 and \u001f', "é")


class Generator:
    """``odd`` is the probability that a part of a schema has something wrong or unusual."""

    def __init__(self, seed: int, odd: float) -> None:
        self._dice = random.Random(seed)
        self._odd = odd
        self._defined: list[str] = []

    def schema(self, among: list[str] | None = None) -> Any:
        """The tree of a schema; ``among`` are full names that it may use."""
        self._defined = list(among or ())
        tree = self._record("", 0) if self._chance(0.75) else self._type("", 0)
        if self._chance(0.15):
            self._use_before_definition(tree)
        if self._chance(0.15):
            tree = self._define_again(tree)
        return tree

    def changed(self, tree: Any) -> Any:
        """A later version: some of it added, removed or replaced."""
        copy = json.loads(json.dumps(tree))
        for _ in range(self._dice.randint(0, 2)):
            self._change(copy)
        return copy

    def names(self, tree: Any, space: str = "") -> list[str]:
        """The full names that are defined in a valid tree."""
        if isinstance(tree, list):
            return [name for branch in tree for name in self.names(branch, space)]
        if not isinstance(tree, dict):
            return []
        found: list[str] = []
        if isinstance(tree.get("name"), str) and tree.get("type") in ("record", "enum", "fixed"):
            own = tree.get("namespace", space)
            before, dot, simple = tree["name"].rpartition(".")
            space = before if dot else own if isinstance(own, str) else space
            found.append(f"{space}.{simple}" if space else simple)
        for key in ("items", "values"):
            found += self.names(tree.get(key), space)
        fields = tree.get("fields")
        for field in fields if isinstance(fields, list) else []:
            found += self.names(field.get("type"), space)
        return found

    def _use_before_definition(self, tree: Any) -> None:
        """Fields in another order: where one uses what another defines, it may come first now."""
        for part in _parts(tree):
            if isinstance(part.get("fields"), list):
                self._dice.shuffle(part["fields"])

    def _define_again(self, tree: Any) -> Any:
        """One of the definitions a second time, alike, or with another doc, or another type."""
        kinds = ("enum", "fixed", "record")
        named = [one for one in _parts(tree) if one.get("type") in kinds and "namespace" in one]
        if not named:
            return tree
        again = json.loads(json.dumps(self._dice.choice(named)))
        what = self._dice.choice(["alike", "doc", "alias", "prop"])
        if what != "alike":
            again[what if what != "alias" else "aliases"] = ["o.T"] if what == "alias" else "new"
        return {"type": "array", "items": [{"type": "map", "values": tree}, again]}

    def _change(self, tree: Any) -> None:
        records = [one for one in _parts(tree) if isinstance(one.get("fields"), list)]
        if not records:
            return
        fields = self._dice.choice(records)["fields"]
        what = self._dice.choice(["add", "remove", "retype", "alias", "default"])
        if what == "add" or not fields:
            free = [name for name in _FIELDS if all(one.get("name") != name for one in fields)]
            if free:
                place = self._dice.randint(0, len(fields))
                fields.insert(place, self._field(free[0], "", 2))
            return
        field = self._dice.choice(fields)
        if what == "remove":
            fields.remove(field)
        elif what == "retype":
            field["type"] = self._type("", 2)
            field.pop("default", None)
        elif what == "alias":
            field["aliases"] = [field["name"]]
            field["name"] = self._dice.choice(_FIELDS)
        else:
            field.pop("default", None)

    def _type(self, space: str, depth: int) -> Any:
        makers: list[Callable[[str, int], Any]] = [self._primitive, self._primitive, self._use]
        if depth < 3:
            makers += [self._array, self._map, self._union, self._enum, self._fixed]
            makers += [self._record, self._record]
        return self._dice.choice(makers)(space, depth)

    def _primitive(self, space: str, depth: int) -> Any:
        kind = self._dice.choice(_PRIMITIVES)
        if self._chance(0.75):
            return kind
        return {**self._dice.choice([{}, *_LOGICAL, *_PROPS]), "type": kind}

    def _use(self, space: str, depth: int) -> Any:
        if not self._defined:
            return self._primitive(space, depth)
        full = self._dice.choice(self._defined)
        before, _, simple = full.rpartition(".")
        text = simple if before in (space, "") or self._is_odd() else full
        return {"type": text, "doc": "dropped"} if self._is_odd() else text

    def _array(self, space: str, depth: int) -> Any:
        return {"type": "array", "items": self._type(space, depth + 1), **self._props()}

    def _map(self, space: str, depth: int) -> Any:
        return {"type": "map", "values": self._type(space, depth + 1), **self._props()}

    def _union(self, space: str, depth: int) -> Any:
        branches = [self._type(space, depth + 1) for _ in range(self._dice.randint(0, 3))]
        branches = [one for one in branches if not isinstance(one, list)]
        kinds = [one if isinstance(one, str) else one.get("type") for one in branches]
        kept = [
            one
            for place, one in enumerate(branches)
            if kinds[place] not in kinds[:place] or kinds[place] in ("record", "enum", "fixed")
        ]
        return ["null", *kept] if self._chance(0.5) and "null" not in kinds else kept

    def _enum(self, space: str, depth: int) -> Any:
        tree, _ = self._named("enum", space)
        symbols: list[str] = self._dice.sample(_SYMBOLS, self._dice.randint(1, 4))
        if self._is_odd():
            symbols = [*symbols, self._dice.choice(["A", "a b", "é"])]
        tree["symbols"] = symbols
        if self._chance(0.3):
            tree["default"] = self._dice.choice(["Z", 5, None]) if self._is_odd() else symbols[0]
        return {**self._props(tree), **tree}

    def _fixed(self, space: str, depth: int) -> Any:
        tree, _ = self._named("fixed", space)
        tree["size"] = self._dice.choice([-1, 2**31, 1.5, "1"]) if self._is_odd() else 4
        return {**self._props(tree, {}, *_LOGICAL), **tree}

    def _record(self, space: str, depth: int) -> Any:
        tree, inner = self._named("record", space)
        if self._is_odd():
            tree["type"] = "error"
        names = self._dice.sample(_FIELDS, self._dice.randint(0, 3))
        tree["fields"] = [self._field(name, inner, depth) for name in names]
        return {**self._props(tree), **tree}

    def _named(self, kind: str, space: str) -> tuple[dict[str, Any], str]:
        """The beginning of a definition, and the namespace within it."""
        own = self._dice.choice(_SPACES)
        used = {name.rpartition(".")[2] for name in self._defined}
        free = [name for name in _NAMES if name not in used]
        name = free[0] if free and not self._is_odd() else self._dice.choice(_NAMES)
        if free and self._chance(0.3):
            name = self._dice.choice(free)
        tree: dict[str, Any] = {"type": kind, "name": name}
        if self._is_odd():
            tree["name"] = self._dice.choice(_BAD_NAMES)
        if self._is_odd():
            own = self._dice.choice(_BAD_SPACES)
        form = self._dice.choice(["namespace", "dotted", "inherited"])
        if form == "inherited":
            own = space
        elif form == "namespace":
            tree["namespace"] = own
        else:
            tree["name"] = f"{own}.{name}" if own or space else name
        self._defined.append(f"{own}.{name}" if own else name)
        if self._chance(0.2):
            tree["doc"] = self._dice.choice(_DOCS)
        if self._chance(0.25):
            tree["aliases"] = self._aliases(["R", "S", "n.R", "n.m.S", "o.T", "E"], ["x-y", ".R"])
        return tree, own

    def _field(self, name: str, space: str, depth: int) -> Any:
        field: dict[str, Any] = {"name": name, "type": self._type(space, depth + 1)}
        if self._is_odd():
            field["name"] = self._dice.choice(_BAD_NAMES)
        if self._chance(0.4) and (self._is_odd() or self._has_values(field["type"])):
            field["default"] = self._default(field["type"])
        if self._chance(0.1):
            field["doc"] = self._dice.choice(_DOCS)
        if self._chance(0.1):
            field["order"] = self._dice.choice(["ascending", "descending", "ignore", "IGNORE"])
        if self._is_odd():
            field["order"] = "up"
        if self._chance(0.2):
            field["aliases"] = self._aliases(list(_FIELDS), ["x-y"])
        return {**field, **self._dice.choice([{}, {}, {}, {"x": {"b": 1, "a": 2}}])}

    def _aliases(self, good: list[str], bad: list[str]) -> Any:
        if self._is_odd():
            return self._dice.choice([bad, "R", [5], None, {}])
        return [self._dice.choice(good) for _ in range(self._dice.randint(0, 2))]

    def _default(self, kind: Any) -> Any:
        if self._is_odd():
            return self._dice.choice([None, "x", 5, 2.5, [], {}, True, "1.5", 2**40, "NaN", "1e5f"])
        if isinstance(kind, list):
            return self._default(self._dice.choice(kind)) if kind else None
        name = kind.get("type") if isinstance(kind, dict) else kind
        if isinstance(kind, dict) and "symbols" in kind:
            return self._dice.choice(["Z", *_SYMBOLS])
        if isinstance(kind, dict) and isinstance(kind.get("fields"), list):
            fields = kind["fields"]
            return {one["name"]: self._default(one["type"]) for one in fields if self._chance(0.9)}
        values: dict[str, Any] = {
            "null": None,
            "boolean": True,
            "int": self._dice.choice([0, -7, 2**31 - 1]),
            "long": self._dice.choice([0, 2**40]),
            "float": self._dice.choice([1, 1.5, 1.10, 1e30, "2.5"]),
            "double": self._dice.choice([0.1, 1e-7, 12345678.9, 3, 100]),
            "bytes": self._dice.choice(["", "\u00ff", "é\u0001"]),
            "string": self._dice.choice(["", 'a"b', "é\t\u2028"]),
            "fixed": "abcd",
            "array": [],
            "map": {},
        }
        return values.get(name) if isinstance(name, str) else None

    def _has_values(self, kind: Any) -> bool:
        """Whether ``_default`` knows a value: it does not know the types that a name stands for."""
        if isinstance(kind, dict) and isinstance(kind.get("fields"), list):
            return all(self._has_values(field["type"]) for field in kind["fields"])
        if isinstance(kind, list):
            return bool(kind) and all(self._has_values(branch) for branch in kind)
        name = kind.get("type") if isinstance(kind, dict) else kind
        return name in (*_PRIMITIVES, "array", "map") or (isinstance(kind, dict) and "name" in kind)

    def _props(self, tree: Any = (), *more: dict[str, Any]) -> dict[str, Any]:
        """Attributes without a meaning. Those of a definition do not name it."""
        props: dict[str, Any] = self._dice.choice([{}, {}, {}, *_PROPS, *more])
        return {key: value for key, value in props.items() if not tree or key[:4] != "name"}

    def _chance(self, probability: float) -> bool:
        return self._dice.random() < probability

    def _is_odd(self) -> bool:
        return self._chance(self._odd)


def _parts(tree: Any) -> list[dict[str, Any]]:
    """All objects within the tree."""
    below = tree if isinstance(tree, list) else tree.values() if isinstance(tree, dict) else ()
    found = [part for one in below for part in _parts(one)]
    return [*found, tree] if isinstance(tree, dict) else found


def cases(seed: int, count: int) -> list[Case]:
    """Pairs of schemas: half of them with nothing odd, a third with references."""
    made: list[Case] = []
    for number in range(count):
        make = Generator(seed * 1_000_003 + number, odd=(0.0, 0.02)[number % 2])
        references: list[Any] = []
        names: list[str] = []
        for _ in range((0, 0, 1, 0, 0, 3)[number % 6]):
            references.append(make.schema(names))
            names += make.names(references[-1])
        first = make.schema(names)
        second = make.changed(first) if number % 4 else make.schema(names)
        made.append(
            {
                "references": [json.dumps(one) for one in references],
                "texts": [json.dumps(first), json.dumps(second)],
                "stored": number % 10 == 9,
            }
        )
    return made
