"""What the store holds and makes no sense, and how it is said in one line."""

from __future__ import annotations

from typing import Final

MOST_REASON: Final = 300


class AbsurdError(ValueError):
    """A row of the store, or a part of it, that makes no sense; says which and why."""


def reason_of(error: Exception) -> str:
    """What an error says, bounded, on one line: who writes nonsense does not choose how much of it
    is kept."""
    said = " ".join(str(error).split())
    if not isinstance(error, AbsurdError):
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return said[:MOST_REASON]
