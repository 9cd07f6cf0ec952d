"""The states of a verdict, and the facts about time and reporters that a judgement rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.model.ranges import EMPTY, RangeSet


class State(StrEnum):
    """Of a cell and of a window; :data:`SEVERITY` orders them."""

    COMPLETE = "COMPLETE"
    EXPLAINED = "EXPLAINED"
    OPEN = "OPEN"
    SETTLING = "SETTLING"
    UNKNOWN = "UNKNOWN"
    UNCLAIMED = "UNCLAIMED"
    DUPLICATION = "DUPLICATION"
    LOSS = "LOSS"
    CORRUPT = "CORRUPT"
    MIXED = "MIXED"


def state_of(text: str) -> State:
    """The state of that name; UNKNOWN if there is none."""
    return State(text) if text in State.__members__ else State.UNKNOWN


SEVERITY = {state: rank for rank, state in enumerate(State)}
"""A window has the state of its worst cell. A known fault outranks what is not known."""

GOOD = frozenset({State.COMPLETE, State.EXPLAINED})
"""The states that a watermark passes."""

UNDECIDED = frozenset({State.OPEN, State.SETTLING, State.UNKNOWN})
"""The states that time alone can change."""


@dataclass(frozen=True, slots=True)
class ReporterFacts:
    """One reporter of the topic upstream, from its events up to the first one that is missing.

    ``complete_through`` (ms): every claim of a record stamped before it has been published.
    ``first_seen`` and ``last_heard`` are ms; a ``closed`` one has published its last claims; a
    ``retired`` one was ended by a person. ``backfill``: its records are older than its run.
    ``lost``: the numbers of events that are missing, though later ones have arrived."""

    reporter: str
    instance: str
    server: str = ""
    first_seen: int = 0
    last_heard: int = 0
    complete_through: int = 0
    closed: bool = False
    retired: bool = False
    backfill: bool = False
    lost: RangeSet = EMPTY

    @property
    def ended(self) -> bool:
        """Whether it sends no more reports."""
        return self.closed or self.retired

    def lacks(self, window_end: int) -> bool:
        """Whether claims of a window that ends there (ms) may still be unpublished."""
        return not self.ended and self.complete_through < window_end


@dataclass(frozen=True, slots=True)
class Clock:
    """The times a judgement rests on, all ms.

    ``downstream_through``: up to when the counter downstream had read all there was;
    ``upstream_through``: the same for the source of the claims, which is the counter of the
    upstream cluster or the reader of the audit topic. ``changed``: when a count or claim of the
    window last changed, which holds the verdict for another settle time; 0 if it is not to (Spark,
    which reads everything at once). ``waits``: the open transactions that either counter waits for;
    one that is open for longer than ``hanging_ms`` will not end by itself."""

    now: int
    window_ms: int
    settle_ms: int
    silence_ms: int
    downstream_through: int
    upstream_through: int
    changed: int = 0
    waits: tuple[OpenTransaction, ...] = ()
    hanging_ms: int = 0


DAMAGE = frozenset({State.LOSS, State.DUPLICATION, State.CORRUPT})
"""What can be wrong with messages; several of these at once are MIXED."""


def worst(states: Iterable[State]) -> State:
    """The state of the whole: the worst of its parts, and MIXED where messages are damaged in more
    than one way. COMPLETE without any part."""
    seen = set(states)
    if len(DAMAGE & seen) > 1:
        return State.MIXED
    return max(seen, key=SEVERITY.__getitem__, default=State.COMPLETE)
