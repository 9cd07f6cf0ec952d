"""Which compactions are under way, whose turn it is, and how much memory each has. Pure.

The compaction of a log may take hours, by accident or by intent of a client. So up to
:data:`MOST` logs are compacted side by side, a turn each, one after the other, and of a topic only
one: what a topic holds never keeps another one waiting for more than their turns. All of them share
one budget of memory; each takes three quarters of what is left when it begins::

    log.cleaner.dedupe.buffer.size   |------------ 1st ------------|--- 2nd ---|3rd|4|
                                                 75 %                  19 %      5 % 1 %
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tallymark.log import Log
from tallymark.log.compaction.plan import Dirt
from tallymark.log.disk.partition_folder import key_of

MOST: Final = 4
_LEAST_MAP: Final = 256


@dataclass(slots=True, eq=False)
class Run:
    """The compaction of a log. ``directory`` and ``segment_start`` are the log's from when it
    began; ``seconds`` is what its turns took; ``map_bytes`` is its part of the memory."""

    log: Log
    dirt: Dirt
    map_bytes: int
    directory: str
    segment_start: int
    seconds: float = 0.0
    begun: bool = False

    @property
    def topic(self) -> str:
        return key_of(self.log.name).topic


@dataclass(slots=True)
class Turns:
    """The compactions under way, the next one first."""

    _runs: deque[Run] = field(default_factory=deque[Run])

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def has_room(self) -> bool:
        """Whether one more may begin."""
        return len(self._runs) < MOST

    @property
    def topics(self) -> set[str]:
        """The topics that have one under way, and get no second one."""
        return {each.topic for each in self._runs}

    def begin(self, target: Log, dirt: Dirt, memory: int) -> None:
        """One more, whose turn comes first. ``memory``: bytes that all of them may take."""
        left = max(memory - sum(each.map_bytes for each in self._runs), 0)
        share = max(left - left // 4, _LEAST_MAP)
        run = Run(target, dirt, share, target.directory, target.segment_start)
        self._runs.appendleft(run)

    def next(self) -> Run:
        """Whose turn it is."""
        return self._runs[0]

    def end_turn(self) -> None:
        """The others come first now."""
        self._runs.rotate(-1)

    def end(self, run: Run) -> None:
        """That one is over."""
        self._runs.remove(run)
