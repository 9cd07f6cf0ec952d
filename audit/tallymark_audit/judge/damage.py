"""Batches that cannot be read, and what that leaves undecided. Pure.

Records before and behind such a batch are counted; its own records are unknown. So nothing is
concluded from what was *not* counted in its partition::

    ── counted ──┤ since      the batch      until ├── counted ──►   time
                 └─ windows that touch this: UNKNOWN, as a whole ─┘

    a cell of the partition lacks messages           UNKNOWN: they may be there; but not in a window
                                                     that began when the batch was in the log
    a cell has records not counted upstream          the same, if the batch is upstream
    all that was claimed is there, another window    judged as ever

Cells of other partitions are judged as ever, in the same window, too. Where a mirror waits at a
batch, since its settings say so, there is no end yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark_audit.judge.states import State

Held = tuple[State, str]
"""A state, and why; where it holds a verdict back: OPEN, SETTLING or UNKNOWN."""


class Damaged(NamedTuple):
    """A partition that cannot be read from ``offset`` up to ``end``, excluded (-1: nothing
    behind it was read). ``why`` names the CRC or what else does not hold. ``since`` (ms): windows
    that end by then had all their records before the damage, as far as records come in the order of
    their time, and so those behind it that begin later than ``until`` (-1: not known). ``spread``:
    cells do not lie in the partition that they began in, so any cell of the topic may have records
    there."""

    cluster: str
    topic: str
    partition: int
    offset: int
    why: str
    since: int = -1
    spread: bool = False
    end: int = -1
    until: int = -1

    @property
    def reason(self) -> str:
        """For a verdict."""
        where = f"{self.topic}-{self.partition} of {self.cluster}"
        if self.end < 0:
            return f"{where} cannot be read from offset {self.offset} on: {self.why}"
        return f"{where} cannot be read at offsets {self.offset} to {self.end - 1}: {self.why}"

    def holds(self, partition: int) -> bool:
        """Whether a cell of this origin partition may have records behind the damage."""
        return self.spread or partition == self.partition


@dataclass(frozen=True, slots=True)
class Damage:
    """The damaged logs on both sides of an edge; ``carrier``: where its mirror stands still since
    it cannot read on."""

    downstream: tuple[Damaged, ...] = ()
    upstream: tuple[Damaged, ...] = ()
    carrier: tuple[Damaged, ...] = ()

    def touching(self, begin: int) -> Damage:
        """What of it may have to do with a window that begins there (ms)."""
        if self == UNDAMAGED:
            return self
        sides = (
            tuple(one for one in side if one.until < 0 or begin <= one.until)
            for side in (self.downstream, self.upstream, self.carrier)
        )
        return Damage(*sides)

    def of_window(self, end: int) -> Held | None:
        """Why a window that ends there (ms) cannot be judged as a whole."""
        return _held(one for one in (*self.downstream, *self.upstream) if end > one.since)

    def missing(self, partition: int, in_flight: bool) -> Held | None:
        """Why messages missing from a cell may not be lost."""
        behind = self.carrier if in_flight else ()
        return _held(one for one in (*self.downstream, *behind) if one.holds(partition))

    def surprising(self, partition: int) -> Held | None:
        """Why records counted downstream only may be upstream all the same."""
        return _held(one for one in self.upstream if one.holds(partition))


UNDAMAGED: Final = Damage()


def _held(found: Iterable[Damaged]) -> Held | None:
    first = min(found, default=None)
    return None if first is None else (State.UNKNOWN, first.reason)
