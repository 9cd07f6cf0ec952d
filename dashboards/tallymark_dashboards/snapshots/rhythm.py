"""When a cluster is asked again, and what of a large one is asked in which look. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

COSTS: Final = 20.0
"""The pause is at least so many times the processor time of the look before it, so that a large
cluster takes no more than a twentieth of a core."""
LONGEST_S: Final = 300.0
AWAY_S: Final = 120.0
"""The longest pause before a cluster that is away is asked again."""
JITTER: Final = 0.2


def pause(took_s: float, failures: int, chance: float, interval_s: float = 10.0) -> float:
    """Seconds until the next look, ``interval_s`` as a rule. ``took_s``: the processor time
    of the last one; ``failures``: how many in a row have failed; ``chance``, 0 to 1, spreads the
    looks at many clusters."""
    if failures:
        wait = max(interval_s, min(AWAY_S, interval_s * 2.0 ** min(failures - 1, 10)))
    else:
        wait = max(interval_s, min(LONGEST_S, COSTS * took_s))
    return wait * (1 - JITTER / 2 + JITTER * chance)


class Turns:
    """A part of a long list at a time, round and round."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 0

    def take(self, everything: Sequence[T]) -> list[T]:
        """The next ones, at most ``most``; all if there are no more. Each comes before any comes
        twice, as long as the list stays."""
        size = len(everything)
        if size <= self._most:
            self._next = 0
            return list(everything)
        first = self._next % size
        found = list(everything[first : first + self._most])
        found += everything[: self._most - len(found)]
        self._next = (first + self._most) % size
        return found
