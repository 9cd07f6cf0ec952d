"""What happened to a window, in one order of time: verdicts, repairs, events of the logs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark_dashboards.view.marks import mark

Row = Mapping[str, Any]
DONE: Final = ("repaired", "present")
"""Outcomes of a repair after which nothing is missing."""
COUNTS: Final = (
    ("claimed", "claimed"),
    ("observed", "observed"),
    ("pending", "pending"),
    ("missing", "missing"),
    ("explained", "explained"),
    ("duplicates", "duplicated"),
    ("unclaimed", "unclaimed"),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at ``at`` (ms). ``kind``: verdict, repair or log. ``what``: a word;
    ``tone`` and ``symbol`` as everywhere. ``who``: its source, which is the counter, the partition
    or the log. ``text``: a line."""

    at: int
    kind: str
    what: str
    tone: str
    symbol: str
    who: str
    text: str


def moments(
    history: Iterable[Row], repairs: Iterable[Row], log_events: Iterable[Row]
) -> list[Moment]:
    """All of it, the earliest first. ``history``: revisions as they are shown."""
    found = [
        *(_verdict(row) for row in history),
        *(_repair(row) for row in repairs),
        *(_log_event(row) for row in log_events),
    ]
    return sorted(found, key=lambda one: one.at)


def offsets(first: int, end: int) -> str:
    """``offset 90``, ``offsets 90–119``: up to ``end``, excluded; none are no text."""
    if first < 0:
        return ""
    return f"offset {first}" if end <= first + 1 else f"offsets {first}–{end - 1}"


def _verdict(row: Row) -> Moment:
    shown = mark(row["state"])
    counts = [f"{row[name]:,} {word}" for name, word in COUNTS if row[name] or name == "claimed"]
    text = "; ".join([", ".join(counts), *row["reasons"]])
    state = str(row["state"])
    return Moment(row["judged_at"], "verdict", state, shown.tone, shown.symbol, row["source"], text)


def _repair(row: Row) -> Moment:
    done = row["outcome"] in DONE
    text = f"{row['copied']:,} copied, {row['present']:,} already there"
    where = f"partition {row['partition']} of {row['server']}" if row["server"] else ""
    said = "; ".join(part for part in (text, row["reason"]) if part)
    tone, symbol = ("good", "✓") if done else ("warn", "!")
    return Moment(row["at"], "repair", row["outcome"], tone, symbol, where, said)


def _log_event(row: Row) -> Moment:
    log = f"{row['cluster']} {row['topic']}"
    log += f"-{row['partition']}" if row["partition"] >= 0 else ""
    where = offsets(row["from_offset"], row["to_offset"])
    text = ", ".join(part for part in (where, row["reason"]) if part)
    return Moment(row["at"], "log", row["kind"], "warn", "!", log, text)
