"""Turns rows of the store into rows of a page. Pure: ``now`` is an argument, nothing is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tallymark_audit.judge.verdicts import UNDECIDED
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.reading.queries import TopicSummary
from tallymark_audit.store.schema.shown import shown_verdict
from tallymark_dashboards.view.marks import mark
from tallymark_dashboards.view.numbers import share

STRIP = 20
"""Windows shown beside a topic, the newest last."""


@dataclass(frozen=True, slots=True)
class StripCell:
    """One window of the strip. ``symbol`` is empty for a window without any message."""

    window: int
    label: str
    symbol: str
    tone: str


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic on one edge, as the overview shows it."""

    summary: TopicSummary
    through: str
    tone: str
    problems: str
    strip: tuple[StripCell, ...]


@dataclass(frozen=True, slots=True)
class Pulse:
    """One of the numbers at the top of the overview."""

    name: str
    value: str
    tone: str
    note: str


def short_time(timestamp_ms: int, now_ms: int) -> str:
    """The time of day, and the date before it unless that is the date of ``now_ms``."""
    full = utc(timestamp_ms)
    return full.partition("T")[2] if full[:10] == utc(now_ms)[:10] else full


def up_to_now(summary: TopicSummary, now_ms: int, window_ms: int) -> TopicSummary:
    """The topic with its newest window that is not in the future: otherwise one clock that is ahead
    would move every window of today off the strip."""
    newest = min(summary.last_window, now_ms - now_ms % window_ms)
    return replace(summary, last_window=max(newest, summary.first_window))


def worst_first(summaries: Iterable[TopicSummary]) -> list[TopicSummary]:
    """Sorted by what an operator must look at first: missing, then duplicates, unclaimed, unknown;
    then by name."""
    return sorted(
        summaries,
        key=lambda one: (
            -one.missing,
            -one.duplicates,
            -one.unclaimed,
            -one.states.get("UNKNOWN", 0),
            one.edge,
            one.topic,
        ),
    )


def pulse(summaries: Sequence[TopicSummary]) -> list[Pulse]:
    """The numbers at the top: messages, not percentages, so rounding never hides a single one."""
    missing = sum(one.missing for one in summaries)
    copies = sum(one.duplicates for one in summaries)
    unclaimed = sum(one.unclaimed for one in summaries)
    unknown = sum(one.states.get("UNKNOWN", 0) for one in summaries)
    claimed = sum(one.claimed for one in summaries)
    return [
        Pulse("missing", f"{missing:,}", "bad" if missing else "", f"of {claimed:,} claimed"),
        Pulse("duplicated", f"{copies:,}", "bad" if copies else "", "copies beyond the first"),
        Pulse("unclaimed", f"{unclaimed:,}", "warn" if unclaimed else "", "seen, never claimed"),
        Pulse("windows unknown", f"{unknown:,}", "warn" if unknown else "", "a reporter is silent"),
        Pulse("complete", share(claimed - missing, claimed), "", "of claimed messages, floored"),
    ]


def topic_row(
    summary: TopicSummary, windows: Sequence[Mapping[str, Any]], window_ms: int
) -> TopicRow:
    """One row of the overview; ``windows`` are verdict rows of the topic on the edge."""
    wrong = [
        f"{summary.states[name]} {name}"
        for name in sorted(summary.states, key=lambda one: mark(one).tone)
        if mark(name).tone in ("bad", "warn")
    ]
    wrong += [summary.skewed] if summary.skewed else []
    tones = {mark(name).tone for name in summary.states}
    return TopicRow(
        summary=summary,
        through=utc(summary.through) if summary.through > 0 else "not yet",
        tone="bad" if "bad" in tones else "warn" if "warn" in tones else "",
        problems=", ".join(wrong),
        strip=strip(summary, windows, window_ms),
    )


def strip(
    summary: TopicSummary, windows: Sequence[Mapping[str, Any]], window_ms: int
) -> tuple[StripCell, ...]:
    """The last windows, up to the newest one with a verdict. Windows without records are drawn too,
    so that equal distances mean equal times."""
    by_start = {int(row["window"]): row for row in windows}
    cells: list[StripCell] = []
    for back in reversed(range(STRIP)):
        start = summary.last_window - back * window_ms
        row = by_start.get(start)
        if row is None:
            cells.append(StripCell(start, f"{utc(start)}: no messages", "", "none"))
            continue
        shown = mark(row["state"])
        cells.append(StripCell(start, _label(row), shown.symbol, shown.tone))
    return tuple(cells)


def _label(row: Mapping[str, Any]) -> str:
    """A verdict in a line. Missing messages are called pending as long as they may still arrive."""
    shown = shown_verdict(dict(row))
    lacks = [f"{shown[name]:,} {name}" for name in ("pending", "missing") if shown[name]]
    said = [f"{shown['observed']:,} of {shown['claimed']:,}", *lacks]
    return f"{utc(shown['window'])}: {shown['state']}, {', '.join(said)}"


def ranges_text(flat: Sequence[int], limit: int = 12) -> str:
    """``[3, 5, 9, 9]`` → ``3–5, 9``; a long list ends with the number of ranges left out."""
    pairs = list(RangeSet.from_list(flat))
    shown = [f"{first}" if first == last else f"{first}–{last}" for first, last in pairs[:limit]]
    more = len(pairs) - limit
    return ", ".join(shown) + (f" and {more} ranges more" if more > 0 else "")


def disagreement(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """The difference between the two counters about a window; empty when they agree, or when one
    has no verdict yet."""
    decided = [row for row in verdicts if row["state"] not in UNDECIDED]
    if len(decided) < 2:
        return ""
    one, other = decided[:2]
    names = [name for name in ("state", "missing", "duplicates") if one[name] != other[name]]
    if not names:
        return ""
    said = "; ".join(f"{name}: {one[name]} / {other[name]}" for name in names)
    return f"{one['source']} / {other['source']} differ in {said}"
