"""What happened around an incident, on one line of time: a lane a kind of event. Pure; the page
has the same as a table beside it.

An incident is seen within seconds and repaired hours later. To scale, all but the last event would
stand on one spot. So a gap is drawn as long as the logarithm of its time, and a long gap says how
long it is; the order is never changed, and moments that are one are drawn as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log2
from typing import Final

from tallymark.untrusted import escaped
from tallymark_audit.model.time_format import duration, utc

WIDTH: Final = 1000
LEFT: Final = 130
RIGHT: Final = 30
LANE: Final = 34
TOP: Final = 12
FOOT: Final = 50
AXIS: Final = 10
"""So far the axis is below the last lane: the lengths of gaps stand between."""
LABEL: Final = 76
"""What a time of day takes on the axis."""
MOST: Final = 80
"""Events that are drawn; the table has all."""
SYMBOLS: Final = {"bad": "−", "warn": "!", "good": "✓", "wait": "·"}


@dataclass(frozen=True, slots=True)
class Happening:
    """From ``start`` to ``end`` (ms), a moment where both are one. ``lane``: the kind of event.
    ``tone`` as everywhere. ``symbol``: shown at a moment, so that no colour stands alone."""

    lane: str
    start: int
    end: int
    text: str
    tone: str = ""
    href: str = ""
    symbol: str = ""


def timeline(happenings: Sequence[Happening]) -> str:
    """The chart as SVG; empty when nothing happened. At most :data:`MOST` events, the first ones
    and the last."""
    if not happenings:
        return ""
    ordered = sorted(happenings, key=lambda one: (one.start, one.end))
    if len(ordered) > MOST:
        ordered = [*ordered[: MOST // 2], *ordered[-MOST // 2 :]]
    lanes = list(dict.fromkeys(one.lane for one in happenings))
    at = positions(moment for one in ordered for moment in (one.start, one.end))
    height = TOP + LANE * len(lanes) + FOOT
    rows = {lane: TOP + LANE * number for number, lane in enumerate(lanes)}
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg class="chart timeline" {size} aria-hidden="true" focusable="false">',
        *(_lane(lane, y) for lane, y in rows.items()),
        *(_drawn(one, at, rows[one.lane]) for one in ordered),
        *_axis(at, TOP + LANE * len(lanes) + AXIS),
        "</svg>",
    ]
    return "".join(parts)


def positions(moments: Iterable[int]) -> dict[int, float]:
    """Where (px) each moment (ms) is drawn: in order, gaps as the logarithm of their seconds."""
    ordered = sorted(set(moments))
    weights = [max(1.0, log2(1 + (later - one) / 1000)) for one, later in pairwise(ordered)]
    whole = sum(weights) or 1.0
    x, found = float(LEFT + 10), {ordered[0]: float(LEFT + 10)}
    for moment, weight in zip(ordered[1:], weights, strict=True):
        x += weight / whole * (WIDTH - LEFT - 10 - RIGHT)
        found[moment] = x
    return found


def _lane(name: str, y: int) -> str:
    middle = y + LANE // 2
    return (
        f'<text class="lane" x="0" y="{middle + 4}">{_text(name)}</text>'
        f'<line class="rule" x1="{LEFT}" x2="{WIDTH - 10}" y1="{middle}" y2="{middle}"/>'
    )


def _drawn(one: Happening, at: Mapping[int, float], y: int) -> str:
    left, right, middle = at[one.start], at[one.end], y + LANE // 2
    tone = one.tone or "plain"
    title = f"<title>{_text(one.text)}</title>"
    if one.end > one.start:
        wide = max(4.0, right - left)
        shape = (
            f'<rect class="mark {tone}" x="{left:.1f}" y="{middle - 8}" width="{wide:.1f}" '
            f'height="16" rx="3">{title}</rect>'
        )
        left += wide / 2
    else:
        shape = f'<circle class="mark {tone}" cx="{left:.1f}" cy="{middle}" r="9">{title}</circle>'
    symbol = one.symbol or SYMBOLS.get(one.tone, "")
    if symbol:
        shape += (
            f'<text class="symbol {tone}" x="{left:.1f}" y="{middle + 5}" '
            f'text-anchor="middle">{_text(symbol)}</text>'
        )
    if not one.href:
        return f"<g>{shape}</g>"
    return f'<a href="{escape(one.href)}" tabindex="-1">{shape}</a>'


def _axis(at: Mapping[int, float], y: int) -> list[str]:
    """A tick at every moment, times where there is room, and how long the long gaps are."""
    parts = [f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y}" y2="{y}"/>']
    free, day, ends = 0.0, "", max(at.values())
    for moment, x in at.items():
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 5}"/>')
        last = x == ends
        if x < free or (not last and ends - x < LABEL):
            continue
        date, _, time = utc(moment).partition("T")
        parts.append(_label(x, y + 18, time or date, last))
        if time and date != day:
            parts.append(_label(x, y + 32, date, last))
            day = date
        free = x + LABEL
    for (one, left), (later, right) in pairwise(at.items()):
        if later - one >= 60_000 and right - left >= LABEL:
            text = duration(later - one)
            middle = (left + right) / 2
            parts.append(
                f'<text class="gap" x="{middle:.1f}" y="{y - 4}" text-anchor="middle">'
                f"{_text(text)}</text>"
            )
    return parts


def _label(x: float, y: int, text: str, last: bool) -> str:
    anchor = "end" if last else "middle"
    return f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(escaped(text))
