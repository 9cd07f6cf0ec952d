"""The heatmap: topics by spans of time. Pure.

Quiet where all is well: only what is wrong has a colour, a symbol and a number. The cells of a row
are one string: a page has 7,200 of them, and nearly all say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

from tallymark.untrusted import escaped
from tallymark_audit.model.time_format import duration, utc
from tallymark_audit.store.reading.heat import HeatCell
from tallymark_dashboards.view.clock import Clock
from tallymark_dashboards.view.marks import mark
from tallymark_dashboards.view.strip import short_count

UNJUDGED: Final = "unjudged"
LETTERS: Final = {
    "good": "g",
    "wait": "w",
    "none": "n",
    "warn": "y",
    "bad": "b",
    "healed": "h",
    UNJUDGED: "u",
}
"""Classes of cells, short: a page has thousands."""
HEALED: Final = "◦"
ALARMS: Final = ("bad", "warn")


@dataclass(frozen=True, slots=True)
class Spot:
    """A cell that says something: ``count`` of messages that are wrong, short. It leads to the
    window (start, ms) on ``edge`` where just one is bad, else (``window`` -1) to all of the topic
    from ``start`` to ``end``."""

    start: int
    end: int
    tone: str
    symbol: str
    count: str
    label: str
    edge: str = ""
    window: int = -1


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A topic: one spot a span of the clock; None where it is healthy, or has no messages
    (``quiet`` says which: a tone a span)."""

    topic: str
    spots: tuple[Spot | None, ...]
    quiet: tuple[str, ...]

    @property
    def tone(self) -> str:
        """The worst of the row."""
        tones = {spot.tone for spot in self.spots if spot}
        return next((tone for tone in ALARMS if tone in tones), "")


def heat_row(
    topic: str, clock: Clock, cells: Iterable[HeatCell], judged_through: int | None = None
) -> HeatRow:
    """The row of a topic. ``judged_through`` (ms): where the audit stands still; None: it is up to
    date. What is known to be wrong behind that stays to be seen."""
    by_start = {cell.start: cell for cell in cells}
    spots: list[Spot | None] = []
    quiet: list[str] = []
    for start in clock:
        cell, end = by_start.get(start), start + clock.step
        behind = judged_through is not None and end > judged_through
        spot, tone = _spot(cell, start, end, behind)
        spots.append(spot)
        quiet.append(tone)
    return HeatRow(topic, tuple(spots), tuple(quiet))


def _spot(cell: HeatCell | None, start: int, end: int, behind: bool) -> tuple[Spot | None, str]:
    tone = mark(cell.state).tone if cell is not None and cell.state else "none"
    if cell is not None and tone in ALARMS:
        return _alarm(cell, tone, start, end), tone
    if behind:
        return None, UNJUDGED
    if cell is not None and cell.healed:
        text = f"{_span(start, end)}: {_windows(cell.healed)} bad, repaired or accepted since"
        return Spot(start, end, "healed", HEALED, "", text), "healed"
    return None, tone


def _alarm(cell: HeatCell, tone: str, start: int, end: int) -> Spot:
    sums = cell.sums
    told = [
        f"{count:,} {name}"
        for name, count in (
            ("missing", sums.missing),
            ("duplicated", sums.duplicates),
            ("unclaimed", sums.unclaimed),
        )
        if count
    ]
    wrong = sums.missing or sums.duplicates or sums.unclaimed
    one = sums.bad <= 1 and cell.window >= 0
    what = f"{cell.state}, {_windows(sums.bad)} bad"
    return Spot(
        start,
        end,
        tone,
        mark(cell.state).symbol,
        short_count(wrong) if wrong else "",
        f"{_span(start, end)}: {', '.join([what, *told])}",
        cell.edge if one else "",
        cell.window if one else -1,
    )


def _span(start: int, end: int) -> str:
    return f"{utc(start)}, {duration(end - start)}"


def _windows(count: int) -> str:
    return "1 window" if count == 1 else f"{count:,} windows"


def cells_html(row: HeatRow, href: Callable[[Spot], str]) -> str:
    """The cells of the row as HTML; ``href``: where a spot leads. The end tag of a cell may be left
    out, and healthy cells are empty: the page stays small."""
    parts: list[str] = []
    together = zip(row.spots, row.quiet, strict=True)
    for spot, some in groupby(together, key=lambda pair: pair[0] or LETTERS[pair[1]]):
        if isinstance(spot, str):
            parts.append(f"<td class={spot}>" * sum(1 for _ in some))
        else:
            parts.append(_cell(spot, href(spot)))
    return "".join(parts)


def _cell(spot: Spot, href: str) -> str:
    said = escape(escaped(spot.label))
    return (
        f'<td class={LETTERS.get(spot.tone, "w")}><a href="{escape(href)}" title="{said}">'
        f'<span aria-hidden="true">{escape(spot.symbol)}{escape(spot.count)}</span>'
        f'<span class="visually-hidden">{said}</span></a>'
    )


@dataclass(frozen=True, slots=True)
class Head:
    """A label of the time axis over so many columns: ``text`` is a time of day, ``date`` stands
    where a day begins."""

    start: int
    columns: int
    text: str
    date: str


def heads(clock: Clock, every: int = 12) -> list[Head]:
    """The labels above the columns, at round times: each over the columns up to the next."""
    starts = list(clock)
    step = clock.step * every
    at = [number for number, start in enumerate(starts) if start % step == 0 or number == 0]
    if len(at) > 1 and at[1] < every // 2:
        del at[1]  # no room between the first and the next
    found: list[Head] = []
    day = ""
    for number, column in enumerate(at):
        end = at[number + 1] if number + 1 < len(at) else len(starts)
        date, _, time = utc(starts[column]).partition("T")
        found.append(Head(starts[column], end - column, time[:5], date if date != day else ""))
        day = date
    return found
