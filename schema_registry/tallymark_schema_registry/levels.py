"""Compatibility levels: with which earlier versions a schema is compared, in which direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from tallymark_schema_registry.schemas import Budget, Schema
from tallymark_schema_registry.schemas.report import Finding, compare

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


def findings(
    level: Level,
    new: Schema,
    old: Schema,
    budget: Budget | None = None,
    *,
    logical: bool = False,
    warn: bool = True,
) -> list[Finding]:
    """What stands against ``new`` after ``old`` at ``level``; compatible if no finding ``refuses``.
    ``logical``: a changed logical type refuses, too; else it is a warning, if ``warn``."""
    return compare(
        new,
        old,
        backward=level.startswith(("BACKWARD", "FULL")),
        forward=level.startswith(("FORWARD", "FULL")),
        logical=logical,
        warn=warn,
        budget=budget,
    )


def differences(
    level: Level,
    new: Schema,
    old: Schema,
    budget: Budget | None = None,
    *,
    logical: bool = False,
) -> list[str]:
    """Why ``new`` is not compatible with ``old`` at ``level``, one text a reason; empty: it is."""
    found = findings(level, new, old, budget, logical=logical, warn=False)
    return [finding.message() for finding in found if finding.refuses]


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
