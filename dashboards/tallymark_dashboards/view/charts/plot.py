"""The frame of a chart: where a time and a value are drawn, and the axes with their labels. Pure.

No colours here: every shape has a class, and the sheet knows light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Final

from tallymark.untrusted import escaped
from tallymark_audit.model.time_format import utc
from tallymark_dashboards.view.clock import DAY, STEPS

WIDTH: Final = 1000
LEFT: Final = 72
RIGHT: Final = 16
TOP: Final = 14
FOOT: Final = 42
TICKS: Final = 8
"""Labels of the time axis at most."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Time (ms) from ``start`` to ``end`` from left to right, values from ``least`` up to
    ``greatest`` from the bottom up; ``log``: every tenfold takes the same room. ``height`` in units
    of the picture, without the axes."""

    start: int
    end: int
    greatest: float
    least: float = 0.0
    log: bool = False
    height: int = 200

    def x(self, at: float) -> float:
        """Where a time (ms) is; one outside lies on the edge."""
        share = (at - self.start) / max(1, self.end - self.start)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Where a value is; one outside lies on the edge."""
        low, high, at = self.least, self.greatest, value
        if self.log:
            low, high, at = (log10(max(one, 1e-9)) for one in (low, high, at))
        share = (at - low) / (high - low) if high > low else 0.0
        return TOP + self.height * (1 - min(1.0, max(0.0, share)))

    @property
    def foot(self) -> float:
        """Where the time axis is."""
        return float(TOP + self.height)


def plot_of(
    start: int, end: int, values: Iterable[float], *, log: bool = False, height: int = 200
) -> Plot:
    """A plot that has room for all of these values, up to a round one."""
    known = list(values)
    if log:
        positive = [value for value in known if value > 0] or [1.0]
        low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
        return Plot(start, end, 10.0 ** max(high, low + 1), 10.0**low, True, height)
    return Plot(start, end, round_up(max(known, default=0)), height=height)


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    if value <= 1:
        return 1.0
    tenfold = 10.0 ** floor(log10(value))
    return next(n * tenfold for n in (1, 2, 5, 10) if n * tenfold >= value)


def picture(plot: Plot, kind: str, label: str, parts: Iterable[str]) -> str:
    """The whole chart. ``label`` says what it shows: the numbers stand in a table beside it."""
    height = plot.height + TOP + FOOT
    said = _text(label)
    return (
        f'<svg class="chart {kind}" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{said}"><title>{said}</title>{"".join(parts)}</svg>'
    )


def axes(plot: Plot, told: Callable[[float], str]) -> list[str]:
    """Lines and labels of both axes; ``told``: how a value is written."""
    parts, foot, day = axes_of_values(plot, told), plot.foot, ""
    for at in time_ticks(plot.start, plot.end):
        x, (date, _, time) = plot.x(at), utc(at).partition("T")
        anchor = "end" if x > WIDTH - 60 else "middle" if x > LEFT + 20 else "start"
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{foot}" y2="{foot + 5}"/>')
        parts.append(label(x, foot + 18, time or date, anchor))
        if date != day and time:
            parts.append(label(x, foot + 33, date, anchor))
            day = date
    return parts


def axes_of_values(plot: Plot, told: Callable[[float], str]) -> list[str]:
    """The axis of values, and the line of the other one without its labels."""
    parts: list[str] = []
    for value in _levels(plot):
        y = plot.y(value)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(label(LEFT - 8, y + 4, told(value), "end"))
    foot = plot.foot
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{foot}" y2="{foot}"/>')
    return parts


def values_again(plot: Plot, told: Callable[[float], str], right: int = RIGHT) -> list[str]:
    """The labels of values once more, inside at the right end: for a narrow screen, on which the
    newest is seen first and the left end is not. ``right``: so far from the right end."""
    return [
        label(WIDTH - right, plot.y(value) - 3, told(value), "end", "tick again")
        for value in _levels(plot)[1:]
    ]


def label(x: float, y: float, text: str, anchor: str = "middle", kind: str = "tick") -> str:
    """A text in the picture."""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'
    )


def time_ticks(start: int, end: int, most: int = TICKS) -> list[int]:
    """Round times (ms) between the ends, so many at most."""
    length = max(1, end - start)
    step = next((one for one in STEPS if length <= (most - 1) * one), 0)
    if not step:
        step = ceil(length / (most - 1) / DAY) * DAY
    return list(range(start + -start % step, end + 1, step))


def steps(plot: Plot, points: Sequence[tuple[int, float]], until: int) -> str:
    """A line that keeps a value until the next point; the path's ``d``. ``until`` (ms): how far
    the last value goes."""
    path: list[str] = []
    for number, (at, value) in enumerate(points):
        following = points[number + 1][0] if number + 1 < len(points) else until
        y = f"{plot.y(value):.1f}"
        path.append(f"{'L' if path else 'M'}{plot.x(at):.1f} {y}H{plot.x(following):.1f}")
    return "".join(path)


def straight(plot: Plot, points: Sequence[tuple[int, float]]) -> str:
    """A line from point to point; the path's ``d``."""
    return "".join(
        f"{'L' if number else 'M'}{plot.x(at):.1f} {plot.y(value):.1f}"
        for number, (at, value) in enumerate(points)
    )


def bar(plot: Plot, kind: str, span: tuple[int, int], low: float, high: float, said: str) -> str:
    """A box over a span of time (ms) from one value up to another, at least 2 units high: a few
    messages of a million are seen, too."""
    top, bottom = plot.y(high), plot.y(low)
    top = min(top, bottom - 2)
    left, right = plot.x(span[0]), plot.x(span[1])
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{max(1.0, right - left):.1f}" '
        f'height="{bottom - top:.1f}"><title>{_text(said)}</title></rect>'
    )


def _levels(plot: Plot) -> list[float]:
    if not plot.log:
        return [plot.greatest * share / 4 for share in range(5)]
    low, high = round(log10(plot.least)), round(log10(plot.greatest))
    return [10.0**power for power in range(low, high + 1)]


def _text(text: str) -> str:
    return escape(escaped(text))
