"""Versions of a subject side by side: their texts, what differs, and whether each may follow those
before it. Pure; bounded in lines, versions and steps.

The rules are those of our registry (:mod:`tallymark_schema_registry.levels`), whichever registry
keeps the schemas.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tallymark_schema_registry.levels import Level, against, findings
from tallymark_schema_registry.schemas import (
    Budget,
    InvalidSchemaError,
    Schema,
    TooLargeError,
    canonical_text,
    diff,
    parse_schema,
)

MAX_LINES: Final = 2_000
"""Of a text that is compared; difflib takes as many steps as the square of them."""
MAX_CHECKED: Final = 30
"""Versions that are checked, the newest; each against so many earlier ones at most."""
MAX_REASONS: Final = 5
CONTEXT: Final = 3
STEPS: Final = 100_000
"""Of parsing and comparing, for a page: some tenths of a second."""
AVRO: Final = "AVRO"
_DEPTH: Final = 10

Action = Literal["+", "-", " ", "…"]


class Line(NamedTuple):
    """A line of a diff with its numbers in the old and the new text (0: it is not there)."""

    action: Action
    old: int
    new: int
    text: str


class Text(NamedTuple):
    """What stands in a version: ``references`` are (subject, version)."""

    kind: str
    text: str
    references: tuple[tuple[str, int], ...] = ()


Find = Callable[[str, int], Text | None]
"""A version of a subject, deleted ones, too; None: it is not known."""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether a version may follow those before it. ``compatible``: None where it was not checked;
    ``said`` why not, ``reasons`` what stands against it, ``other`` the version that it conflicts
    with."""

    compatible: bool | None
    said: str = ""
    reasons: tuple[str, ...] = ()
    other: int = 0


class Parsed:
    """Schemas of one page, parsed once each, within one budget for all."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._budget = Budget(STEPS)
        self._known: dict[tuple[str, int], Schema | None] = {}

    def schema(self, subject: str, version: int, depth: int = 0) -> Schema | None:
        """None: it is no Avro schema that can be read here."""
        key = subject, version
        if key not in self._known:
            self._known[key] = None  # also against references in a circle
            self._known[key] = self._parse(subject, version, depth)
        return self._known[key]

    def check(self, level: str, subject: str, version: int, before: Sequence[int]) -> Check:
        """``before``: the versions before it, the newest first."""
        if not before:
            return Check(None, "the first one")
        if level not in list(Level):
            return Check(None, f"the level {level or '?'} is not known here")
        asked = list(against(Level(level), before[:MAX_CHECKED]))
        if not asked:
            return Check(None, "the level NONE checks nothing")
        new = self.schema(subject, version)
        if new is None:
            return Check(None, "it cannot be read as an Avro schema with what it refers to")
        try:
            for other in asked:
                old = self.schema(subject, other)
                if old is None:
                    return Check(None, f"version {other} cannot be read as an Avro schema")
                found = findings(Level(level), new, old, self._budget, warn=False)
                reasons = [f"{one.path}: {one.text} ({one.fix})" for one in found if one.refuses]
                if reasons:
                    return Check(False, "", tuple(reasons[:MAX_REASONS]), other)
        except TooLargeError as error:
            return Check(None, str(error))
        return Check(True)

    def changes(self, subject: str, old: int, new: int) -> list[str]:
        """What differs in the words of schemas: ``+ Click.device: field string``; empty where a
        schema cannot be read, or nothing differs."""
        first, second = self.schema(subject, old), self.schema(subject, new)
        if first is None or second is None:
            return []
        try:
            return [one.line() for one in diff(first, second, self._budget)][:MAX_LINES]
        except (TooLargeError, RecursionError):
            return []

    def canonical(self, subject: str, version: int, text: str) -> str:
        """The canonical text in lines; the text itself where it cannot be parsed."""
        schema = self.schema(subject, version)
        try:
            return pretty(text if schema is None else canonical_text(schema, self._budget))
        except (TooLargeError, RecursionError):
            return pretty(text)

    def _parse(self, subject: str, version: int, depth: int) -> Schema | None:
        found = self._find(subject, version)
        if found is None or found.kind != AVRO or not found.text or depth > _DEPTH:
            return None
        referred = [self.schema(*one, depth + 1) for one in found.references]
        known = [one for one in referred if one is not None]
        if len(known) < len(referred):
            return None
        try:
            return parse_schema(found.text, self._budget, known, stored=True)
        except (InvalidSchemaError, TooLargeError):
            return None


def pretty(text: str) -> str:
    """JSON in lines, keys in their order; other text as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def diff_lines(old: str, new: str) -> list[Line]:
    """The lines that differ, with :data:`CONTEXT` lines around them; ``…`` where equal lines are
    left out. Empty where nothing differs."""
    before, after = old.splitlines()[:MAX_LINES], new.splitlines()[:MAX_LINES]
    found: list[Line] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if found or group[0][1] > 0:
            found.append(Line("…", 0, 0, ""))
        for action, i1, i2, j1, j2 in group:
            if action == "equal":
                found += [Line(" ", i + 1, j1 + i - i1 + 1, before[i]) for i in range(i1, i2)]
                continue
            found += [Line("-", i + 1, 0, before[i]) for i in range(i1, i2)]
            found += [Line("+", 0, j + 1, after[j]) for j in range(j1, j2)]
    return found


def previous(versions: Sequence[int]) -> Mapping[int, list[int]]:
    """Of each version those before it, the newest first."""
    ordered = sorted(versions)
    return {one: ordered[:at][::-1] for at, one in enumerate(ordered)}
