"""Compatibility levels: with which earlier versions a schema is compared, in which direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from tallymark_schema_registry.schemas import (
    Budget,
    Incompatibility,
    Schema,
    incompatibilities,
)

T = TypeVar("T")


class Level(StrEnum):
    """BACKWARD: the new schema reads old data. FORWARD: the old one reads new data. FULL: both."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def transitive(self) -> bool:
        """Against every earlier version, not only the last."""
        return self.endswith("_TRANSITIVE")


DEFAULT = Level.BACKWARD


def against(level: Level, newest_first: Sequence[T]) -> Sequence[T]:
    """Those of the versions that ``level`` asks to check."""
    if level is Level.NONE:
        return ()
    return newest_first if level.transitive else newest_first[:1]


def differences(level: Level, new: Schema, old: Schema, budget: Budget | None = None) -> list[str]:
    """Why ``new`` is not compatible with ``old`` at ``level``, one text a reason; empty: it is."""
    found: list[str] = []
    if level.startswith(("FORWARD", "FULL")):
        found.extend(_texts(incompatibilities(old, new, budget), "old", "new"))
    if level.startswith(("BACKWARD", "FULL")):
        found.extend(_texts(incompatibilities(new, old, budget), "new", "old"))
    return found


def first_conflict(
    level: Level,
    new: Schema,
    newest_first: Sequence[int],
    load: Callable[[int], Schema],
    budget: Budget | None = None,
) -> tuple[int, list[str]] | None:
    """The newest version that conflicts, and why. ``load`` gives a version's schema."""
    for version in against(level, newest_first):
        found = differences(level, new, load(version), budget)
        if found:
            return version, found
    return None


def _texts(found: list[Incompatibility], reader: str, writer: str) -> list[str]:
    return [
        f"{{errorType:'{item.kind}', description:'at path {item.path}: "
        f"{_roles(item.text, reader, writer)}', additionalInfo:'{item.info}'}}"
        for item in found
    ]


def _roles(text: str, reader: str, writer: str) -> str:
    """Say "new schema" and "old schema": a person who registers a schema does not think of readers
    and writers."""
    return text.replace("the reader", f"the {reader} schema").replace(
        "the writer", f"the {writer} schema"
    )
