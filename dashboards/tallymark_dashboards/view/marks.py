"""How a state is shown: a symbol, a word and a colour class, never the colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tallymark_audit.judge.verdicts import State

Tone = Literal["", "good", "wait", "warn", "bad"]
""""": nothing is said; the others from what is well to what is wrong."""


@dataclass(frozen=True, slots=True)
class Mark:
    """``symbol`` is shown in a cell, ``meaning`` in the legend and for screen readers."""

    symbol: str
    tone: Tone
    meaning: str


NOT_JUDGED: Final = "NOT JUDGED"
"""Where the audit has not come so far: no state of a window, and never good."""

MARKS: dict[str, Mark] = {
    State.COMPLETE: Mark("✓", "good", "every claimed message has arrived exactly once"),
    State.EXPLAINED: Mark(
        "≈", "good", "complete except for records that are missing for a known reason"
    ),
    State.OPEN: Mark("·", "wait", "the window has not ended"),
    State.SETTLING: Mark("…", "wait", "ended; records or reports may still be under way"),
    State.UNKNOWN: Mark("?", "warn", "a reporter or counter that is needed has gone silent"),
    NOT_JUDGED: Mark("∅", "warn", "the audit has not come that far: nothing is known"),
    State.UNCLAIMED: Mark("!", "warn", "seen, but not claimed"),
    State.DUPLICATION: Mark("+", "bad", "messages are there more than once"),
    State.LOSS: Mark("−", "bad", "messages are missing"),
    State.MIXED: Mark("±", "bad", "messages are missing, and others are there more than once"),
    State.CORRUPT: Mark("✗", "bad", "messages have changed"),
}


def mark(state: str) -> Mark:
    """The mark of a state; an unknown state is shown as unknown, never as good."""
    return MARKS.get(state, Mark("?", "warn", f"state {state}"))
