"""Whose turn it is where the work of several topics is done one after the other. Pure.

What one topic costs, however much of it there is, must not be waited for by the others. So each
topic that has something to do gets a slice of time in turn, and one that has taken more than its
slice, since a single piece of its work is long, rests until the others could have had as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from tallymark.clock import thread_ms

SLICE_MS: Final = 200
"""Of a topic, before others have their turn."""
ALONE_MS: Final = 1_000
"""For a topic that no other one waits for now."""
HURRY: Final = 4
"""Slices are so many times shorter where other work waits for all of it."""
FIRST: Final = 2
"""Pieces of a topic whose cost is not known yet."""
REST: Final = 2
"""A topic rests so many times as long as it has worked beyond its slice."""
LONGEST_REST_MS: Final = 10_000
LEAST_MS: Final = 0.01
"""What a piece is taken to cost at least."""
FORGET: Final = 10_000
"""Topics of which it is remembered what a piece of their work takes."""
T = TypeVar("T")


@dataclass(slots=True)
class Turns(Generic[T]):
    """How much work each topic has taken; ``clock`` and ``meter`` (of work) in ms. A topic that
    never takes more than a slice never rests. ``beside``: there is other work that this object does
    not know of."""

    clock: Callable[[], float]
    meter: Callable[[], float] = thread_ms
    beside: bool = False
    _rests: dict[str, float] = field(default_factory=dict[str, float])
    """Until when."""
    _cost: dict[str, float] = field(default_factory=dict[str, float])
    """What one piece took lately, ms."""

    def run(
        self,
        todo: Mapping[str, Sequence[T]],
        work: Callable[[str, Sequence[T]], object],
        most: int,
        hurry: bool = False,
    ) -> None:
        """Do of each topic what a slice has time for, at most ``most`` pieces of all together, at
        least one of each that does not rest. ``work`` does some pieces of one topic. ``hurry``:
        other work waits for all of this, so slices are short."""
        order = self._order(todo)
        alone = len(order) == 1 and not self.beside
        slice_ms = (ALONE_MS if alone else SLICE_MS) / (HURRY if hurry else 1)
        for at, topic in enumerate(order):
            fair = -(-most // (len(order) - at))
            pieces = todo[topic][: min(fair, self._at_once(topic, slice_ms))]
            if not pieces:
                continue
            began = self.meter()
            work(topic, pieces)
            most -= len(pieces)
            self._note(topic, len(pieces), self.meter() - began, alone, slice_ms)
        self._forget()

    def _order(self, todo: Iterable[str]) -> list[str]:
        """The topics that do not rest; those first whose pieces are short."""
        now = self.clock()
        awake = [topic for topic in todo if self._rests.get(topic, 0) <= now]
        return sorted(awake, key=lambda topic: (self._cost.get(topic, 0), topic))

    def _at_once(self, topic: str, slice_ms: float) -> int:
        """How many pieces fit into a slice, by what one took lately."""
        cost = self._cost.get(topic)
        if cost is None:
            return FIRST
        return max(1, int(slice_ms / max(cost, LEAST_MS)))

    def _note(self, topic: str, pieces: int, spent: float, alone: bool, slice_ms: float) -> None:
        each, known = spent / pieces, self._cost.get(topic)
        self._cost[topic] = each if known is None else max(each, (known + each) / 2)
        if spent > slice_ms and not alone:
            self._rests[topic] = self.clock() + min(LONGEST_REST_MS, REST * (spent - slice_ms))

    def _forget(self) -> None:
        now = self.clock()
        self._rests = {topic: until for topic, until in self._rests.items() if until > now}
        if len(self._cost) > FORGET:
            self._cost.clear()
