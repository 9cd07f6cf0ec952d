"""From the plan of a failing run to a short one that still fails (Zeller's delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Event = TypeVar("Event")


def shrunk(
    events: Sequence[Event], fails: Callable[[Sequence[Event]], bool], runs: int = 500
) -> list[Event]:
    """The events without those that ``fails`` does not need: larger parts are left out first, then
    smaller ones, then single events. ``runs`` is how often ``fails`` is called at most. ``events``
    are taken to fail; the result does."""
    kept = list(events)
    size = (len(kept) + 1) // 2
    while size and runs > 0:
        place = 0
        while place < len(kept) and runs > 0:
            shorter = kept[:place] + kept[place + size :]
            runs -= 1
            if fails(shorter):
                kept = shorter
            else:
                place += size
        size = size // 2
    return kept
