"""The burn-down of a window: how many of its messages were not there yet, from its end on. It shows
how long messages take to settle. Pure.

Most of it happens within seconds, a repair hours later: so the axis of time is logarithmic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Final

from tallymark_audit.model.time_format import duration
from tallymark_dashboards.view.charts.plot import (
    LEFT,
    WIDTH,
    Plot,
    axes_of_values,
    label,
    picture,
    plot_of,
)

MARKS: Final = (1, 10, 60, 600, 3600, 86_400, 604_800)
"""Seconds after the end that are labelled."""


@dataclass(frozen=True, slots=True)
class Left:
    """At ``after`` (ms since the end of the window; before it 0) so many messages were not there,
    of all that were claimed by then."""

    after: int
    absent: int
    claimed: int
    state: str


def points(history: Iterable[Mapping[str, Any]], window_end: int) -> list[Left]:
    """From the revisions of the verdicts of a window as they are shown (:func:`~tallymark_audit.
    store.schema.rows.shown_verdict`), the earliest first."""
    found = [
        Left(
            max(0, row["judged_at"] - window_end),
            row["pending"] + row["missing"],
            row["claimed"],
            str(row["state"]),
        )
        for row in history
    ]
    return sorted(found, key=lambda one: one.after)


def burn_down(found: Sequence[Left]) -> str:
    """The chart as SVG; empty with fewer than two points."""
    if len(found) < 2:
        return ""
    last = max(found[-1].after, 10_000) * 1.3
    plot = plot_of(0, 1_000_000, (one.absent for one in found), height=150)

    def at(after: float) -> float:
        return plot.x(1_000_000 * log10(1 + after / 1000) / log10(1 + last / 1000))

    path = ""
    for number, one in enumerate(found):
        following = found[number + 1].after if number + 1 < len(found) else last
        path += f"{'L' if number else 'M'}{at(one.after):.1f} {plot.y(one.absent):.1f}"
        path += f"H{at(following):.1f}"
    said = f"Messages that were not there: {found[0].absent:,} at first, {found[-1].absent:,} now"
    parts = [*axes_of_values(plot, lambda value: f"{value:,.0f}"), *_ticks(plot, at, last)]
    return picture(plot, "burn-down", said, [*parts, f'<path class="absent" d="{path}"/>'])


def _ticks(plot: Plot, at: Any, last: float) -> list[str]:
    foot = plot.foot
    parts = [label(LEFT, foot + 18, "end", "start")]
    for seconds in MARKS:
        if 1000 * seconds < last:
            x = at(1000 * seconds)
            anchor = "end" if x > WIDTH - 60 else "middle"
            parts.append(label(x, foot + 18, f"+{duration(1000 * seconds)}", anchor))
            parts.append(
                f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{foot}" y2="{foot + 5}"/>'
            )
    return parts
