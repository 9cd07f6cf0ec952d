"""Schemas of the store, parsed: what they refer to is known before. For worker threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tallymark_schema_registry.bounded_cache import BoundedCache
from tallymark_schema_registry.catalog.catalog import Catalog
from tallymark_schema_registry.catalog.content import Reference
from tallymark_schema_registry.decisions.references import closure, targets
from tallymark_schema_registry.schemas import Budget, InvalidSchemaError, Schema, parse_schema

PARSED: Final = 4 << 20
"""Characters of the texts of schemas that are kept parsed; those take some 5 times as much."""

Place = tuple[str, int]
"""Context and id."""
ParsedSchemas = BoundedCache[tuple[Place, str], Schema]
"""By the text, too: an import may bring another one under an id that was permanently deleted."""


def direct(catalog: Catalog, context: str, references: tuple[Reference, ...]) -> tuple[Place, ...]:
    """Where the schemas are that numbered references mean."""
    return tuple(
        (subject.context, entry.schema_id)
        for _, subject, entry in targets(catalog, context, references)
    )


def reached(catalog: Catalog, places: Iterable[Place]) -> dict[Place, tuple[Place, ...]]:
    """What each schema refers to directly: of ``places``, and of all that they reach."""
    found = dict[Place, tuple[Place, ...]]()
    for place in places:
        schema = catalog.schema(*place)
        if schema is None or place in found:
            continue
        inner = closure(catalog, place[0], schema.references) if schema.references else ()
        for other in (*inner, place):
            there = catalog.schema(*other)
            if there is not None and other not in found:
                found[other] = direct(catalog, other[0], there.references)
    return found


class StoredSchemas:
    """The schemas of one question. ``refers`` and ``texts``: of all that may be needed."""

    def __init__(
        self,
        refers: Mapping[Place, tuple[Place, ...]],
        texts: Mapping[Place, str],
        parsed: ParsedSchemas,
    ) -> None:
        self.texts = texts
        self._refers = refers
        self._parsed = parsed
        self._used: dict[Place, Schema] = {}

    def get(self, place: Place, budget: Budget) -> Schema:
        """Raises InvalidSchemaError where the text cannot be read, and TooLargeError."""
        # A chain of references may be longer than Python's stack.
        stack = [place]
        while stack:
            one = stack[-1]
            missing = () if self._has(one) else self._missing(one)
            stack.extend(missing)
            if not missing:
                stack.pop()
                if one not in self._used:
                    self._parse(one, budget)
        return self._used[place]

    def _has(self, place: Place) -> bool:
        if place not in self._used:
            text = self.texts.get(place)
            held = self._parsed.get((place, text)) if text is not None else None
            if held is None:
                return False
            self._used[place] = held
        return True

    def _missing(self, place: Place) -> list[Place]:
        return [other for other in self._refers.get(place, ()) if not self._has(other)]

    def _parse(self, place: Place, budget: Budget) -> None:
        text = self.texts.get(place)
        if text is None:
            raise InvalidSchemaError("a schema that it needs was deleted")
        references = [self._used[other] for other in self._refers[place]]
        parsed = parse_schema(text, budget, references, stored=True)
        self._used[place] = parsed
        self._parsed.put((place, text), parsed, range(parsed.size))
