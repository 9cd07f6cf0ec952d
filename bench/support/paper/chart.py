"""A line chart as SVG, with a logarithmic axis: rates of some messages to a million a second. Pure;
no library that we depend on draws SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]
Place = Callable[[float, float], tuple[float, float]]

_WIDTH, _HEIGHT = 860, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 220, 48, 52
_INNER_WIDTH: Final = _WIDTH - _LEFT - _RIGHT
_INNER_HEIGHT: Final = _HEIGHT - _TOP - _BOTTOM
_LABEL_GAP: Final = 16
# Okabe and Ito's colours: also people who see few colours tell them apart. The same colour with
# dashes is the same product with other batches.
_STYLES: Final = (
    *(("#0072b2", ""), ("#0072b2", "7 4"), ("#000000", ""), ("#000000", "7 4")),
    *(("#d55e00", ""), ("#009e73", ""), ("#cc79a7", "")),
)


def rates(marks: Sequence[float], messages: int, size: int) -> list[tuple[float, float]]:
    """(MB so far, messages per second since the point before) for each mark. Marks at the same
    moment, as a list of messages gives them, are one point."""
    points: list[tuple[float, float]] = []
    step, before, counted = messages // max(1, len(marks)), 0.0, 0
    for number, now in enumerate(marks, 1):
        if now > before:
            points.append((number * step * size / 1e6, (number * step - counted) / (now - before)))
            before, counted = now, number * step
    return points


def line_chart(title: str, x_name: str, y_name: str, lines: Mapping[str, Points]) -> str:
    """The lines by name, y on a logarithmic axis. Points have y above 0; lines without points are
    left out."""
    shown = {name: points for name, points in lines.items() if points}
    every = [point for points in shown.values() for point in points] or [(1.0, 1.0)]
    right = max(x for x, _ in every)
    low, high = floor(log10(min(y for _, y in every))), ceil(log10(max(y for _, y in every)))
    high = max(high, low + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        up = (log10(y) - low) / (high - low)
        return _LEFT + x / right * _INNER_WIDTH, _TOP + (1 - up) * _INNER_HEIGHT

    drawn = [[place(*point) for point in points] for points in shown.values()]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        _text(_LEFT, 26, title, size=16),
        *_grid(low, high, right, place),
        _text(_LEFT + _INNER_WIDTH / 2, _HEIGHT - 12, x_name, "middle"),
        _text(4, _TOP - 14, y_name),
        *(_line(number, line) for number, line in enumerate(drawn)),
        *_labels(list(shown), drawn),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(low: int, high: int, right: float, place: Place) -> Iterator[str]:
    for power in range(low, high + 1):
        for times in (1, 2, 5) if power < high else (1,):
            y = place(0, times * 10.0**power)[1]
            yield (
                f'<line x1="{_LEFT}" x2="{_LEFT + _INNER_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" '
                f'stroke="{"#bbb" if times == 1 else "#eee"}"/>'
            )
            if times == 1:
                yield _text(_LEFT - 8, y + 4, f"{10**power:,}", "end")
    for quarter in range(5):
        x, value = _LEFT + quarter / 4 * _INNER_WIDTH, right * quarter / 4
        yield _text(x, _TOP + _INNER_HEIGHT + 18, f"{value:,.{0 if right >= 40 else 1}f}", "middle")


def _line(number: int, points: Points) -> str:
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    colour, dash = _STYLES[number % len(_STYLES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def _labels(names: Sequence[str], drawn: Sequence[Points]) -> Iterator[str]:
    """Each name at the end of its line; lower where it would cover another one."""
    ends = sorted((points[-1][1], number) for number, points in enumerate(drawn))
    below = 0.0
    for y, number in ends:
        below = max(y, below + _LABEL_GAP)
        colour, _ = _STYLES[number % len(_STYLES)]
        yield _text(_LEFT + _INNER_WIDTH + 10, below + 4, names[number], colour=colour)


def _text(
    x: float, y: float, words: str, anchor: str = "start", size: int = 13, colour: str = "#222"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        'font-family="sans-serif" '
        f'fill="{colour}">{escape(words)}</text>'
    )
