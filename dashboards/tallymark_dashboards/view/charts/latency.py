"""How long messages took until they were counted, as lines on a logarithmic scale. Pure. The
percentiles come from sketches of all messages of a bucket, never from other percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tallymark_audit.model.time_format import duration
from tallymark_dashboards.view.charts.plot import (
    Plot,
    axes,
    label,
    picture,
    plot_of,
    straight,
    values_again,
)

NAMES: Final = 60
"""What the names of the lines take at the right end."""
LINES: Final = (("p50", "50 %"), ("p95", "95 %"), ("p99", "99 %"), ("most", "max"))


@dataclass(frozen=True, slots=True)
class Took:
    """Of a bucket (``start``, ms) the latencies (ms) that so many messages do not exceed."""

    start: int
    p50: float
    p95: float
    p99: float
    most: float


def latency(name: str, found: Sequence[Took], start: int, end: int, step: int) -> str:
    """The chart of one cluster as SVG; empty when nothing was counted. ``step`` (ms): the length
    of a bucket."""
    if not found:
        return ""
    values = [max(1.0, value) for one in found for value in (one.p50, one.most)]
    room = (end - start) // 25  # for the names of the lines
    plot = plot_of(start, end + room, values, log=True, height=150)
    said = f"Latency on {name}: half within {told(found[-1].p50)}, at most {told(found[-1].most)}"
    lines = [_line(plot, found, at, step) for at in range(len(LINES))]
    texts = [*_names(plot, found[-1], step), *values_again(plot, told, NAMES)]
    return picture(plot, "latency", said, [*axes(plot, told), *lines, *texts])


def told(ms: float) -> str:
    """A latency for people: ``12 ms``, ``1.5 s``, ``2 min``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.3g} s"
    return duration(int(ms) // 1000 * 1000)


def _line(plot: Plot, found: Sequence[Took], number: int, step: int) -> str:
    """One line of :data:`LINES`, broken where nothing was counted; a bucket alone is a dash of its
    own length."""
    column, paths = LINES[number][0], list[str]()
    part: list[tuple[int, float]] = []
    for at, one in enumerate(found):
        part.append((one.start + step // 2, max(1.0, getattr(one, column))))
        if at + 1 == len(found) or found[at + 1].start > one.start + step:
            if len(part) == 1:
                middle, value = part[0]
                part = [(middle - step // 2, value), (middle + step // 2, value)]
            paths.append(straight(plot, part))
            part = []
    return f'<path class="line line-{number + 1}" d="{"".join(paths)}"/>'


def _names(plot: Plot, last: Took, step: int) -> list[str]:
    """The name of each line at its end, apart from each other."""
    places = sorted((plot.y(max(1.0, getattr(last, column))), name) for column, name in LINES)
    parts: list[str] = []
    free = 0.0
    x = min(plot.x(last.start + step // 2) + 6, 965.0)
    for y, name in places:
        y = max(y - 4, free)
        parts.append(label(x, y, name, "start", "name"))
        free = y + 13
    return parts
