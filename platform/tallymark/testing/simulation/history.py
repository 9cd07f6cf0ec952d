"""What happened in a run, in the order in which it happened. Two runs of one seed have the same
history, which its digest shows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

Fact: TypeAlias = int | str | float | bool | tuple["Fact", ...]


@dataclass(frozen=True, slots=True)
class Event:
    """``what`` happened to or was seen by ``who``, ``at`` seconds of simulated time."""

    at: float
    who: str
    what: str
    facts: tuple[Fact, ...]

    def __str__(self) -> str:
        return f"{self.at:10.4f}  {self.who:<12} {self.what:<18} " + " ".join(map(str, self.facts))


class History:
    """``now``: the simulated clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.events: list[Event] = []

    def add(self, who: str, what: str, *facts: Fact) -> None:
        """Something has happened."""
        self.events.append(Event(self._now(), who, what, facts))

    def of(self, *what: str) -> Iterator[Event]:
        """The events of these kinds."""
        return (event for event in self.events if event.what in what)

    @property
    def digest(self) -> str:
        """The same for equal histories only."""
        content = "\n".join(map(str, self.events))
        return hashlib.sha256(content.encode()).hexdigest()
