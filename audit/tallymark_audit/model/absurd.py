"""Rows of the store that make no sense, and one line that says why."""

from __future__ import annotations

from typing import Final

MOST_REASON: Final = 300


class AbsurdError(ValueError):
    """A row of the store, or a part of it, that makes no sense; says which and why."""


def reason_of(error: Exception) -> str:
    """The text of an error on one line, bounded: the writer of a bad row must not choose how much
    of it is kept."""
    said = " ".join(str(error).split())
    if not isinstance(error, AbsurdError):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return said[:MOST_REASON]
