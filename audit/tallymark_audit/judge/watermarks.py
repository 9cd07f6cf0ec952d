"""How far an edge is complete, without a gap: "complete through 12:40", and the holes by name.

A watermark passes a window only when every earlier one is good, so one bad window holds it until
it is repaired or a person accepts it; the windows after it are judged all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tallymark_audit.judge.verdicts import GOOD, State


class JudgedWindow(NamedTuple):
    """A window (start, ms) and its state; ``accepted``: a person has let it pass."""

    window: int
    state: State
    accepted: bool = False


class Hole(NamedTuple):
    """A window that is not good, below the horizon."""

    window: int
    state: State
    accepted: bool


class Watermark(NamedTuple):
    """``through`` (ms): every record stamped before it is accounted for. ``holes`` are all the
    windows below the horizon that are not good, oldest first, the accepted ones too."""

    through: int
    holes: tuple[Hole, ...]


def watermark(windows: Iterable[JudgedWindow], horizon: int, window_ms: int) -> Watermark:
    """The contiguous watermark over the judged windows of one topic on one edge.

    ``horizon`` (ms) is how far absence can be trusted: up to there every reporter has reported and
    every counter has counted, so a window without any verdict below it is empty, not unknown."""
    through = horizon - horizon % window_ms
    holes: list[Hole] = []
    for window, state, accepted in sorted(windows):
        if window + window_ms > horizon and state not in GOOD:
            through = min(through, max(window, 0))
            break
        if state not in GOOD:
            holes.append(Hole(window, state, accepted))
            if not accepted:
                through = min(through, max(window, 0))
    return Watermark(through, tuple(holes))
