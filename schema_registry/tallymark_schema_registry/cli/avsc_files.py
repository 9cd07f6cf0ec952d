"""A folder of schema files that use each other's types, in the order in which they can be
registered. Pure.

Each file is a subject, by its name (``orders-value.avsc`` is ``orders-value``) or by a map. A file
may use a named type that another file defines; for the registry that is a reference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from tallymark.errors import UserError
from tallymark_schema_registry.transfer.avro_tree import AvroTree, written_out

SUFFIX: Final = ".avsc"


@dataclass(frozen=True, slots=True)
class AvscFile:
    """One file. ``uses``: the types of other files that it uses itself, with their subjects.
    ``whole``: its schema with all types of other files written out."""

    path: str
    subject: str
    text: str
    uses: tuple[tuple[str, str], ...]
    whole: str


def in_order(texts: Mapping[str, str], subjects: Mapping[str, str]) -> list[AvscFile]:
    """The files, each after those that it uses. ``texts`` and ``subjects`` are by path. UserError
    where one is no schema, what is used is defined nowhere or twice, or files use each other in a
    circle."""
    trees = {path: _tree(path, text) for path, text in sorted(texts.items())}
    owners = _owners(trees)
    uses = {path: _uses(path, tree, owners) for path, tree in trees.items()}
    graph = {path: {other for _, other in found} for path, found in uses.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " uses ".join(reversed(error.args[1]))
        raise UserError(f"files use each other in a circle: {circle}", "join them") from None
    definitions = _definitions(trees, uses)
    return [
        AvscFile(
            path,
            subjects[path],
            texts[path],
            tuple((name, subjects[other]) for name, other in uses[path]),
            json.dumps(written_out(trees[path].tree, definitions), ensure_ascii=False),
        )
        for path in order
    ]


def _tree(path: str, text: str) -> AvroTree:
    try:
        return AvroTree(text)
    except ValueError as error:
        raise UserError(f"{path} is no schema: {error}", "mend it") from None


def _owners(trees: Mapping[str, AvroTree]) -> dict[str, list[str]]:
    """Name of a type -> the files that others may take it from: those that are its definition, or
    else the first that has it somewhere inside. The same type may be the value of many topics."""
    found: dict[str, list[str]] = {}
    for path, tree in trees.items():
        if name := _own_name(tree):
            found.setdefault(name, []).append(path)
    for path, tree in trees.items():
        for name in tree.defined:
            found.setdefault(name, [path])
    return found


def _own_name(tree: AvroTree) -> str:
    name = tree.tree.get("name") if isinstance(tree.tree, dict) else None
    return name if isinstance(name, str) and name in tree.defined else ""


def _uses(path: str, tree: AvroTree, owners: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """(name, file) of each type that is used and not defined here."""
    found: list[tuple[str, str]] = []
    for name, written in tree.missing.items():
        known = name if name in owners else written
        if known not in owners:
            raise UserError(
                f"{path} uses {name}, which neither it nor another file defines",
                "add the file, or write the name with its namespace",
            )
        if len(owners[known]) > 1:
            both = " and ".join(owners[known][:2])
            raise UserError(f"{path} uses {known}, which {both} both define", "keep one of them")
        found.append((known, owners[known][0]))
    return list(dict.fromkeys(found))


def _definitions(
    trees: Mapping[str, AvroTree], uses: Mapping[str, list[tuple[str, str]]]
) -> dict[str, Any]:
    """Every type that some file takes from another one, also by the names under which it was looked
    for (a type without a namespace, used inside of one)."""
    found = {name: trees[path].defined[name] for each in uses.values() for name, path in each}
    for tree in trees.values():
        found |= {name: found[n] for name, n in tree.missing.items() if name not in found}
    return found
