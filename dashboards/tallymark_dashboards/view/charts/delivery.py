"""What was expected and what has arrived, by the time of the messages. Pure.

The line is what was claimed, the area what has arrived of it. Between them lies what may still come
(hatched) and what is missing (filled, never thinner than a line).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallymark_audit.model.time_format import utc
from tallymark_dashboards.view.charts.plot import (
    Plot,
    axes,
    bar,
    picture,
    plot_of,
    steps,
    values_again,
)

HATCH = (
    '<defs><pattern id="pending" width="8" height="8" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatch" width="3" height="8"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Delivered:
    """A bucket of windows (``start``, ms), in messages: ``claimed = observed + pending + missing +
    explained``."""

    start: int
    claimed: int
    observed: int
    pending: int = 0
    missing: int = 0
    explained: int = 0


def delivery(
    found: Sequence[Delivered], start: int, end: int, step: int, judged_through: int | None = None
) -> str:
    """The chart as SVG; empty when there was nothing. Buckets are ``step`` ms long. From
    ``judged_through`` (ms) on nothing is judged; None: all is."""
    if not found:
        return ""
    plot = plot_of(start, end, (one.claimed for one in found), height=200)
    line = [point for one in _without_gaps(found, step) for point in one]
    label = (
        f"Messages by their own time, {utc(start)} to {utc(end)}: expected "
        f"{sum(one.claimed for one in found):,}, arrived {sum(one.observed for one in found):,}"
    )
    return picture(
        plot,
        "delivery",
        label,
        [
            HATCH,
            *axes(plot, _told),
            *(shape for one in found for shape in _boxes(plot, one, step)),
            f'<path class="expected" d="{steps(plot, line, end)}"/>',
            *_not_judged(plot, judged_through),
            *values_again(plot, _told),
        ],
    )


def _told(value: float) -> str:
    return f"{value:,.0f}" if value >= 5 or value.is_integer() else ""


def _without_gaps(found: Sequence[Delivered], step: int) -> list[list[tuple[int, float]]]:
    """The points of the line: where a bucket has no window nothing was expected."""
    points: list[list[tuple[int, float]]] = []
    for number, one in enumerate(found):
        mine = [(one.start, float(one.claimed))]
        following = found[number + 1].start if number + 1 < len(found) else None
        if following != one.start + step:
            mine.append((one.start + step, 0.0))
        points.append(mine)
    return points


def _boxes(plot: Plot, one: Delivered, step: int) -> list[str]:
    span = one.start, one.start + step
    at = utc(one.start)
    shapes: list[str] = []
    level = 0
    for kind, count, said in (
        ("actual", one.observed, "arrived"),
        ("excused", one.explained, "explained"),
        ("pending", one.pending, "may still arrive"),
        ("short", one.missing, "missing"),
    ):
        if count:
            text = f"{at}: {count:,} of {one.claimed:,} {said}"
            shapes.append(bar(plot, kind, span, level, level + count, text))
            level += count
    return shapes


def _not_judged(plot: Plot, through: int | None) -> list[str]:
    if through is None or through >= plot.end:
        return []
    span = max(through, plot.start), plot.end
    said = f"not judged since {utc(through)}"
    return [bar(plot, "unjudged", span, 0, plot.greatest, said)]
