"""Schedules compactions: which ones run, which one is next, and how much memory each has. Pure.

The compaction of a log may take hours, by accident or because a client intends it. So up to
:data:`MOST` logs are compacted in turns, and only one log of a topic: other topics wait at most for
these turns, whatever a topic contains. All compactions share one budget of memory; each takes three
quarters of the rest when it begins::

    log.cleaner.dedupe.buffer.size   |------------ 1st ------------|--- 2nd ---|3rd|4|
                                                 75 %                  19 %      5 % 1 %
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from tallymark.log import Log
from tallymark.log.compaction.plan import Dirt
from tallymark.log.disk.partition_folder import key_of

MOST: Final = 4
_LEAST_MAP: Final = 256


@dataclass(slots=True, eq=False)
class Run:
    """The compaction of a log. ``directory``, ``segment_start`` and ``cuts`` are those of the log
    at its beginning; ``seconds`` is the sum of its turns; ``map_bytes`` is its part of the memory.
    ``overtaken``: a compaction that began later has had the turn that was due to it.
    """

    log: Log
    dirt: Dirt
    map_bytes: int
    directory: str
    segment_start: int
    cuts: int
    seconds: float = 0.0
    begun: bool = False
    overtaken: bool = False

    @property
    def topic(self) -> str:
        return key_of(self.log.name).topic

    @property
    def is_of_this_log(self) -> bool:
        """Whether the log is as it was: not deleted, not shortened at its start or its end."""
        target = self.log
        return (
            not target.is_closed
            and target.segment_start == self.segment_start
            and target.cuts == self.cuts
        )


@dataclass(slots=True)
class Turns:
    """The running compactions, the next one first."""

    _runs: deque[Run] = field(default_factory=deque[Run])

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def has_room(self) -> bool:
        """Whether another compaction may begin."""
        return len(self._runs) < MOST

    @property
    def topics(self) -> set[str]:
        """The topics with a running compaction; they get no second one."""
        return {each.topic for each in self._runs}

    def begin(self, target: Log, dirt: Dirt, memory: int) -> None:
        """Add a compaction, which has the next turn, but after those that have been overtaken by
        another one since their last turn: a topic that is dirty again when its compaction ends
        would have all turns. ``memory``: the bytes for all of them."""
        left = max(memory - sum(each.map_bytes for each in self._runs), 0)
        share = max(left - left // 4, _LEAST_MAP)
        run = Run(target, dirt, share, target.directory, target.segment_start, target.cuts)
        place = max((at for at, each in enumerate(self._runs, 1) if each.overtaken), default=0)
        for each in islice(self._runs, place, None):
            each.overtaken = True
        self._runs.insert(place, run)

    def next(self) -> Run:
        """The compaction that has the next turn."""
        return self._runs[0]

    def of(self, target: Log) -> Run | None:
        """The compaction of this log; None where there is none."""
        return next((each for each in self._runs if each.log is target), None)

    def end_turn(self) -> None:
        """End the turn: the compaction goes to the end of the queue."""
        self._runs[0].overtaken = False
        self._runs.rotate(-1)

    def end(self, run: Run) -> None:
        """The compaction is over."""
        self._runs.remove(run)
