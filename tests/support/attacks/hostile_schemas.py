"""Schemas that cost whoever reads or compares them far more than their length says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Pair = tuple[str, str]
"""Two schemas; the second is meant to be compared with the first."""


def text(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))


def record(name: str, fields: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields, **more}


def unions_of_records(count: int) -> Pair:
    """Every branch of one against every branch of the other: 112 kB of it took half a minute."""

    def make(kind: str) -> str:
        return text([record(f"R{n}", [{"name": "a", "type": kind}]) for n in range(count)])

    return make("int"), make("long")


def unions_of_one_name(count: int) -> Pair:
    """All branches have the same name without namespace, so all of them may match."""

    def make(size: int) -> str:
        return text([{"type": "fixed", "name": f"n{n}.F", "size": n + size} for n in range(count)])

    return make(0), make(count)


def enums(count: int) -> Pair:
    """Every symbol of one is looked for in the other."""

    def make(first: int) -> str:
        symbols = [f"S{n}" for n in range(first, first + count)]
        return text({"type": "enum", "name": "E", "symbols": symbols})

    return make(0), make(1)


def reasons_that_double(depth: int) -> Pair:
    """Each record holds the next one twice, so a flat list of reasons doubles with each."""

    def make(kind: str) -> str:
        fields: list[Any] = [{"name": "a", "type": kind}]
        for n in range(depth):
            inner = record(f"R{n}", fields)
            fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{n}"}]
        return text(record("Top", fields))

    return make("int"), make("string")


def chain(count: int) -> Pair:
    """Records that name one another: flat as JSON, and as deep as they are many."""

    def make(kind: str) -> str:
        links = [
            {"name": f"f{n}", "type": record(f"R{n}", [{"name": "a", "type": f"R{n + 1}"}])}
            for n in range(count)
        ]
        last = {"name": "last", "type": record(f"R{count}", [{"name": "a", "type": kind}])}
        return text(record("Top", [*links, last]))

    return make("int"), make("long")


def default_of_records(count: int, depth: int = 40) -> Pair:
    """A default that is nested, and each level may be any of many records: none, at its end."""
    names = [f"R{n}" for n in range(count)]
    definitions: list[Any] = [record(name, [{"name": "f", "type": "U"}]) for name in names]
    union = [*names, "null"]
    for one in definitions:
        one["fields"] = [{"name": "f", "type": union}]
    value: Any = 1
    for _ in range(depth):
        value = {"f": value}
    holders = [{"name": f"h{n}", "type": one} for n, one in enumerate(definitions)]
    broken = text(record("Top", [*holders, {"name": "x", "type": union, "default": value}]))
    return '"int"', broken


def defaults_of_an_enum(count: int) -> Pair:
    """Each default is looked for among very many symbols."""
    symbols = [f"S{n}" for n in range(count)]
    fields: list[Any] = [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": symbols}}]
    fields += [{"name": f"f{n}", "type": "E", "default": f"S{count - 1}"} for n in range(count)]
    return '"int"', text(record("Top", fields))


def long_namespace(count: int, length: int) -> Pair:
    """Short names in a long namespace, all in one union."""
    fields: list[Any] = [
        {"name": f"f{n}", "type": {"type": "fixed", "name": f"F{n}", "size": 1}}
        for n in range(count)
    ]
    fields.append({"name": "u", "type": [f"F{n}" for n in range(count)]})
    return '"int"', text(record("Top", fields, namespace="n" * length))


def written_twice(depth: int, length: int) -> Pair:
    """The same definition again, compared with the first one on every level."""
    inner: Any = {"type": "fixed", "name": "F", "size": 1, "doc": "x", "y": [{}] * length}
    for n in range(depth):
        inner = record(f"R{n}", [{"name": "a", "type": inner}])
    return '"int"', text(
        record("Top", [{"name": "a", "type": inner}, {"name": "b", "type": inner}])
    )


def deep_attribute(depth: int) -> Pair:
    """An attribute without a meaning that no walk can follow."""
    return '"int"', '{"type":"int","x":' + "[" * depth + "]" * depth + "}"


def wide(count: int) -> Pair:
    """A record of very many fields: large, and honest."""

    def make(kind: str) -> str:
        return text(record("R", [{"name": f"f{n}", "type": kind} for n in range(count)]))

    return make("int"), make("long")


SMALL: dict[str, Callable[[], Pair]] = {
    "unions of records": lambda: unions_of_records(1200),
    "unions of one name": lambda: unions_of_one_name(2500),
    "enums": lambda: enums(10_000),
    "reasons that double": lambda: reasons_that_double(40),
    "a chain of names": lambda: chain(1500),
    "a default of records": lambda: default_of_records(8),
    "defaults of an enum": lambda: defaults_of_an_enum(3000),
    "a long namespace": lambda: long_namespace(1000, 50_000),
    "written twice": lambda: written_twice(100, 10_000),
    "a deep attribute": lambda: deep_attribute(3000),
}
"""Some 100 kB each."""

LARGE: dict[str, Callable[[], Pair]] = {
    "unions of records": lambda: unions_of_records(10_000),
    "unions of one name": lambda: unions_of_one_name(15_000),
    "enums": lambda: enums(75_000),
    "reasons that double": lambda: reasons_that_double(49),
    "a chain of names": lambda: chain(7_500),
    "a default of records": lambda: default_of_records(300),
    "defaults of an enum": lambda: defaults_of_an_enum(13_000),
    "a long namespace": lambda: long_namespace(5000, 400_000),
    "a namespace just allowed": lambda: long_namespace(10_000, 1000),
    "written twice": lambda: written_twice(100, 32_000),
    "a deep attribute": lambda: deep_attribute(131_000),
    "many small names": lambda: ('"int"', text([f"r{n:x}" for n in range(80_000)])),
    "wide": lambda: wide(20_000),
}
"""Some 700 kB each: escaped within a body of JSON nearly 1 MiB, the largest that is taken. Or they
have nearly the most parts that are taken."""

TOO_MANY_PARTS: dict[str, Callable[[], Pair]] = {
    "written twice": lambda: written_twice(100, 130_000),
    "a deep attribute": lambda: deep_attribute(480_000),
}
"""The second of each is within the bytes of a body, and has more parts than the registry reads."""


def mutated(seed: int, count: int) -> Iterator[Pair]:
    """Parts of those, put together at random: the same pair for the same seed."""
    dice = random.Random(seed)
    trees = [json.loads(side) for make in SMALL.values() for side in make() if len(side) < 90_000]
    for number in range(count):
        few = dice.sample(trees, dice.randint(1, 6))
        fields = [{"name": f"f{number}_{n}", "type": one} for n, one in enumerate(few)]
        whole = text(record("Top", fields))
        place = dice.randrange(len(whole))
        cut = whole[:place] + dice.choice(['"', "[", "{", "0", "null", ","]) + whole[place + 1 :]
        yield whole, dice.choice([whole, cut, text(few)])
