"""Logs that cannot be read from an offset on, and what that leaves undecided. Pure.

A batch whose CRC does not hold ends the reading of its partition: nobody counts what stands behind
it. So of that partition nothing is concluded from what was *not* seen::

    the window may have records behind the damage    UNKNOWN, as a whole
    a cell of the partition lacks messages           UNKNOWN, whatever its window: they may be there
    a cell has what nobody counted upstream          UNKNOWN, if the damage is upstream
    all that was claimed is there, window too old    judged as ever

Cells of other partitions are judged as ever, in the same window, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark_audit.judge.states import State

Held = tuple[State, str]


class Damaged(NamedTuple):
    """A partition that cannot be read from ``offset`` on. ``why`` names the CRC or what else does
    not hold. ``since`` (ms): windows that end by then had all their records before the damage, as
    far as records come in the order of their time. ``spread``: cells do not lie in the partition
    that they began in, so any cell of the topic may have records there."""

    cluster: str
    topic: str
    partition: int
    offset: int
    why: str
    since: int = -1
    spread: bool = False

    @property
    def reason(self) -> str:
        """For a verdict."""
        where = f"{self.topic}-{self.partition} of {self.cluster}"
        return f"{where} cannot be read from offset {self.offset} on: {self.why}"

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

    def of_window(self, end: int) -> Held | None:
        """Why nothing is known of a window that ends there (ms) as a whole."""
        return _held(one for one in (*self.downstream, *self.upstream) if end > one.since)

    def missing(self, partition: int, in_flight: bool) -> Held | None:
        """Why what a cell lacks is not known to be lost."""
        behind = self.carrier if in_flight else ()
        return _held(one for one in (*self.downstream, *behind) if one.holds(partition))

    def surprising(self, partition: int) -> Held | None:
        """Why what is downstream and was not counted upstream may be there all the same."""
        return _held(one for one in self.upstream if one.holds(partition))


UNDAMAGED: Final = Damage()


def _held(found: Iterable[Damaged]) -> Held | None:
    first = min(found, default=None)
    return None if first is None else (State.UNKNOWN, first.reason)
