"""The time range of a page: ``range=15m|6h|24h|7d``, or ``from=..&to=..``; 24 hours otherwise.
Pure: ``now`` is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time, utc

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
NAMED: Final[Mapping[str, tuple[int, str]]] = {
    "15m": (15 * MINUTE, "the last 15 minutes"),
    "6h": (6 * HOUR, "the last 6 hours"),
    "24h": (DAY, "the last 24 hours"),
    "7d": (7 * DAY, "the last 7 days"),
}
STEPS: Final[Mapping[str, int]] = {
    "15m": MINUTE, "6h": 10 * MINUTE, "24h": 10 * MINUTE, "7d": HOUR,
}  # fmt: skip
"""A named range moves by so much at once, and ends with the step that goes on now: a start that
moved with the clock would change the sums of a live page, and so send it again, each time a window
leaves its range. Sums are kept of ten minutes, and cost least for whole ones."""
DEFAULT: Final = "24h"
LONGEST: Final = 366 * DAY
SHOWN: Final = 40
"""Characters of a wrong value that a note repeats."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """``start`` included, ``end`` excluded, ms; those of a named one are whole :data:`STEPS`, so it
    may end a little after now. ``name``: "24h", or "" for from–to. ``text``: for people ("the last
    24 hours"). ``query``: what a link needs to keep it; empty for the default."""

    start: int
    end: int
    name: str
    text: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def asked(self) -> Mapping[str, str]:
        """The parameters with which the query API is asked for the range: ``from_`` and ``to``.
        "24h" stays that: a link whose end is now would be another one each second."""
        if self.name:
            return {"from_": self.name}
        return {"from_" if name == "from" else name: text for name, text in self.query.items()}


def time_range(query: Mapping[str, str], now: int) -> tuple[TimeRange, tuple[str, ...]]:
    """The range that a query asks for, and notes about what was taken instead."""
    if query.get("from", "").strip() or query.get("to", "").strip():
        return _between(query, now)
    name = query.get("range", "").strip() or DEFAULT
    if name not in NAMED:
        said = f"range={name[:SHOWN]} is none of {', '.join(NAMED)}: {NAMED[DEFAULT][1]} are shown"
        return _named(DEFAULT, now), (said,)
    return _named(name, now), ()


def _named(name: str, now: int) -> TimeRange:
    length, text = NAMED[name]
    end = now + -now % STEPS[name]
    return TimeRange(end - length, end, name, text, {} if name == DEFAULT else {"range": name})


def _between(query: Mapping[str, str], now: int) -> tuple[TimeRange, tuple[str, ...]]:
    notes: list[str] = []
    end = _moment("to", query, now, notes)
    end = now if end is None else end
    start = _moment("from", query, now, notes)
    start = end - DAY if start is None else start
    if start >= end:
        return _named(DEFAULT, now), (
            *notes,
            f"from is not before to: {NAMED[DEFAULT][1]} are shown",
        )
    # Whole seconds: an address has no more, and a link has to lead to the same range again.
    start = max(0, start - start % 1000)
    end = max(start + 1000, min(LATEST, -(-end // 1000) * 1000))
    if end - start > LONGEST:
        start = end - LONGEST
        notes.append("more than 366 days: the last 366 days before the end are shown")
    asked = {"from": utc(start), "to": utc(end)}
    return TimeRange(start, end, "", f"{asked['from']} to {asked['to']}", asked), tuple(notes)


def _moment(name: str, query: Mapping[str, str], now: int, notes: list[str]) -> int | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        at = parse_time(text, now)
    except UserError:
        notes.append(f"{name}={text[:SHOWN]} is no time: it is left out")
        return None
    if not 0 <= at <= LATEST:
        notes.append(f"{name}={text[:SHOWN]} is outside the calendar: it is left out")
        return None
    return at


LATEST: Final = 253_402_300_799_000
"""9999-12-31T23:59:59Z, the last time of the calendar."""
