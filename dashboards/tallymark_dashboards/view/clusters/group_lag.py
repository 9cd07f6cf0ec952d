"""How far a consumer group is behind, as text, as a mark and as a small course. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from tallymark.untrusted import escaped
from tallymark_audit.model.time_format import duration
from tallymark_dashboards.view.charts.plot import (
    Plot,
    axes,
    picture,
    plot_of,
    straight,
    values_again,
)
from tallymark_dashboards.view.marks import Mark

STATUS_MARKS: Final[dict[str, Mark]] = {
    "OK": Mark("✓", "good", "it has read everything, or reads and does not fall behind"),
    "UNKNOWN": Mark("?", "wait", "too little was seen of it yet, or it could not be asked"),
    "WARN": Mark(
        "↗", "warn", "it reads, but falls further behind; or its offset is not in the log"
    ),
    "STALLED": Mark("‖", "bad", "a member has the partition, and its offset does not move"),
    "STOPPED": Mark("■", "bad", "no member reads the partition, and there are messages to read"),
}
SPARK: Final = (120, 26)
_ROUND_MS: Final = tuple(
    1000 * seconds
    for seconds in (4, 20, 60, 240, 1200, 3600, 14_400, 43_200, 86_400, 345_600, 1_209_600)
)
"""Lengths whose quarters are round, too."""


def status_mark(status: str) -> Mark:
    """The mark of a group's status; an unknown one is never good."""
    return STATUS_MARKS.get(status, STATUS_MARKS["UNKNOWN"])


def delay_text(ms: int | None, least: bool = False) -> str:
    """``3 min 5 s``; ``≥ 2 h`` where it is at least that much; ``–`` where it is not known."""
    if ms is None:
        return "–"
    return f"≥ {duration(ms)}" if least else duration(ms)


def spark(points: Sequence[tuple[int, int]], label: str) -> str:
    """A course of (time, lag) as a small line without axes; empty for fewer than two points. Its
    right end is now, its height the largest lag."""
    if len(points) < 2:
        return ""
    width, height = SPARK
    start, end = points[0][0], points[-1][0]
    most = max(1, *(lag for _, lag in points))
    path = "".join(
        f"{'L' if number else 'M'}{2 + (at - start) * (width - 4) / max(1, end - start):.0f} "
        f"{height - 3 - lag * (height - 6) / most:.0f}"
        for number, (at, lag) in enumerate(points)
    )
    said = escape(escaped(label))
    return (
        f'<svg class="chart spark" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{said}"><title>{said}</title>'
        f'<path class="line line-1" d="{path}"/></svg>'
    )


def lag_chart(points: Sequence[tuple[int, int]], unit: str) -> str:
    """The course of a lag with axes; ``unit`` "messages", or "time" (values in ms). Empty for fewer
    than two points."""
    if len(points) < 2:
        return ""
    start, end = points[0][0], points[-1][0]
    values = [value for _, value in points]
    plot = plot_of(start, end, values, height=120)
    if unit == "time":
        top = next((one for one in _ROUND_MS if one >= max(values)), plot.greatest)
        plot = Plot(start, end, top, height=120)

    def told(value: float) -> str:
        return duration(int(value)) if unit == "time" else f"{int(value):,}"

    last = told(points[-1][1])
    label = f"{'Time' if unit == 'time' else 'Messages'} behind, now {last}"
    line = f'<path class="line line-1" d="{straight(plot, points)}"/>'
    return picture(plot, "lag", label, [*axes(plot, told), line, *values_again(plot, told)])
