"""Where the texts of arrows stand in a drawing of boxes: beside their lines, and apart from each
other. Pure. A place is x to the right, y down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeAlias

from tallymark.untrusted import escaped

_MARGIN: Final = 6
"""Between a box and the text of an arrow."""
_POINT: Final = 16
"""What the point of an arrow takes."""
_ABOVE: Final = 6
_BELOW: Final = 16
_LINE: Final = 15
_CHARACTER: Final = 7.0
_IN_A_LINE: Final = 20
"""Characters that have room between two boxes."""
_LEVELS: Final = 4
"""So many texts may stand above each other."""
Point: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where a text may stand: ``x`` is its ``anchor`` ("start", "middle", "end"); ``side`` is -1
    above a line at ``y``, 1 below it, 0 on it."""

    x: float
    y: float
    anchor: str
    side: int = 0


def beside(source: Point, target: Point, *, at_source: bool) -> list[TextPlace]:
    """The places for the text of a line from ``source`` to ``target`` that begins and ends level:
    on the side from which it bends away, so that no text covers it. ``at_source``: the place there
    is the better one."""
    (x1, y1), (x2, y2) = source, target
    first = TextPlace(x1 + _MARGIN, y1, "start", -1 if y2 >= y1 else 1)
    last = TextPlace(x2 - _MARGIN - _POINT, y2, "end", -1 if y2 <= y1 else 1)
    return [first, last] if at_source else [last, first]


def placed(places: Sequence[TextPlace], text: str, taken: list[Box]) -> str:
    """The text as SVG at the first of its places that is free, further away from its line where
    none is. ``taken``: what other texts take; its own is added."""
    lines = _lines(text)
    found = [_boxes(place, lines, level) for level in range(_LEVELS) for place in places]
    boxes = next((one for one in found if not any(_meet(a, b) for a in one for b in taken)), None)
    chosen = boxes or found[0]
    taken.extend(chosen)
    place = places[found.index(chosen) % len(places)]
    return "".join(
        f'<text x="{place.x:.0f}" y="{bottom - 3:.0f}" text-anchor="{place.anchor}">'
        f"{escape(escaped(line))}</text>"
        for line, (_, _, _, bottom) in zip(lines, chosen, strict=True)
    )


def _lines(text: str) -> list[str]:
    """Two where one has no room between two boxes."""
    first, comma, rest = text.partition(", ")
    return [first + ",", rest] if comma and len(text) > _IN_A_LINE else [text]


def _boxes(place: TextPlace, lines: Sequence[str], level: int) -> list[Box]:
    if place.side < 0:
        y = place.y - _ABOVE - (level + len(lines) - 1) * _LINE
    else:
        y = place.y + place.side * _BELOW + level * _LINE
    left = {"start": 0.0, "middle": 0.5, "end": 1.0}[place.anchor]
    found: list[Box] = []
    for number, line in enumerate(lines):
        width, foot = _CHARACTER * len(line), y + number * _LINE + 3
        found.append((place.x - left * width, foot - _LINE, place.x + (1 - left) * width, foot))
    return found


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
