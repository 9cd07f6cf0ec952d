"""Clusters and the edges between them as a drawing: in columns, from where messages are produced to
where they end. Pure.

The column of a node is the longest way to it; edges that lead back (two clusters that are mirrored
into each other) do not count, and are drawn below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from tallymark.untrusted import escaped
from tallymark_dashboards.view.clusters.arrow_texts import Box, TextPlace, beside, placed
from tallymark_dashboards.view.names import short

BOX: Final = (190, 62)
GAP: Final = (150, 34)
_EDGE: Final = 12
_NAME: Final = 22


@dataclass(frozen=True, slots=True)
class Node:
    """A cluster, ``producer`` or ``lake``: two lines of text, and a tone ("good", "warn" ...).
    ``symbol`` stands before the second line."""

    name: str
    text: str
    tone: str = ""
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge between two nodes, with a text on it."""

    name: str
    source: str
    target: str
    text: str
    tone: str = ""


def places(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """(column, row) of each node; no two have the same place. Edges with unknown ends are left
    out."""
    known = set(nodes)
    following: dict[str, list[str]] = {name: [] for name in nodes}
    for source, target in edges:
        if source in known and target in known and source != target:
            following[source].append(target)
    columns = _columns(nodes, _forward(nodes, following))
    rows: dict[int, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for name in nodes:
        column = columns[name]
        found[name] = column, rows.get(column, 0)
        rows[column] = rows.get(column, 0) + 1
    return found


def drawing(nodes: Sequence[Node], arrows: Sequence[Arrow], label: str) -> str:
    """The topology as SVG; empty without nodes."""
    if not nodes:
        return ""
    at = places([one.name for one in nodes], [(one.source, one.target) for one in arrows])
    columns = 1 + max(column for column, _ in at.values())
    rows = 1 + max(row for _, row in at.values())
    width = 2 * _EDGE + columns * BOX[0] + (columns - 1) * GAP[0]
    back = any(_leads_back(at, one) for one in arrows)
    height = 2 * _EDGE + rows * (BOX[1] + GAP[1]) + (28 if back else 0)
    corners = _corners(at, rows)
    known = [one for one in arrows if _known(at, one)]
    crowd = Counter(one.source for one in known if not _leads_back(at, one))
    drawn = [_arrow(corners, at, one, height, crowd) for one in known]
    # All lines before all texts: no line leads through the text of another one.
    taken: list[Box] = []
    texts = "".join(
        f"{_begun(one)}{placed(beside_it, one.text, taken)}</g>"
        for one, (_, beside_it) in zip(known, drawn, strict=True)
    )
    lines = "".join(line for line, _ in drawn)
    boxes = [_box(corners[one.name], one) for one in nodes]
    said = escape(escaped(label))
    return (
        f'<svg class="chart topology" viewBox="0 0 {width} {height}" width="{width / 16:.2f}rem" '
        f'height="{height / 16:.2f}rem" role="img" aria-label="{said}"><title>{said}</title>'
        f"{_HEAD}{lines}{texts}{''.join(boxes)}</svg>"
    )


_HEAD: Final = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto-start-reverse"><path class="head" d="M0 0L8 4L0 8z"/></marker>'
    "</defs>"
)


def _forward(nodes: Sequence[str], following: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The edges without those that close a circle."""
    kept: dict[str, list[str]] = {name: [] for name in nodes}
    done: set[str] = set()
    for first in nodes:
        if first in done:
            continue
        path, open_now = [(first, iter(following[first]))], {first}
        while path:
            name, left = path[-1]
            after = next(left, None)
            if after is None:
                path.pop()
                open_now.discard(name)
                done.add(name)
            elif after not in open_now:
                kept[name].append(after)
                if after not in done:
                    open_now.add(after)
                    path.append((after, iter(following[after])))
    return kept


def _columns(nodes: Sequence[str], forward: Mapping[str, Sequence[str]]) -> dict[str, int]:
    columns = dict.fromkeys(nodes, 0)
    for _ in nodes:  # the longest way has at most so many edges
        moved = False
        for source, targets in forward.items():
            for target in targets:
                if columns[target] <= columns[source]:
                    columns[target] = columns[source] + 1
                    moved = True
        if not moved:
            break
    return columns


def _corners(at: Mapping[str, tuple[int, int]], rows: int) -> dict[str, tuple[float, float]]:
    """Left upper corners; a short column stands in the middle."""
    in_column: dict[int, int] = {}
    for column, row in at.values():
        in_column[column] = max(in_column.get(column, 0), row + 1)
    return {
        name: (
            _EDGE + column * (BOX[0] + GAP[0]),
            _EDGE + (row + (rows - in_column[column]) / 2) * (BOX[1] + GAP[1]) + GAP[1] / 2,
        )
        for name, (column, row) in at.items()
    }


def _known(at: Mapping[str, tuple[int, int]], one: Arrow) -> bool:
    return one.source in at and one.target in at and one.source != one.target


def _leads_back(at: Mapping[str, tuple[int, int]], one: Arrow) -> bool:
    return _known(at, one) and at[one.target][0] <= at[one.source][0]


def _arrow(
    corners: Mapping[str, tuple[float, float]],
    at: Mapping[str, tuple[int, int]],
    one: Arrow,
    height: int,
    crowd: Counter[str],
) -> tuple[str, list[TextPlace]]:
    """The line, and where its text may stand."""
    (sx, sy), (tx, ty) = corners[one.source], corners[one.target]
    if _leads_back(at, one):
        x1, y1, x2, y2 = sx + BOX[0] / 2, sy + BOX[1], tx + BOX[0] / 2, ty + BOX[1]
        low = height - _EDGE
        path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {low} {x2:.0f} {low} {x2:.0f} {y2:.0f}"
        beside_it = [TextPlace((x1 + x2) / 2, low - 4.0, "middle")]
    else:
        x1, y1, x2, y2 = sx + BOX[0], sy + BOX[1] / 2, tx, ty + BOX[1] / 2
        half = (x2 - x1) / 2
        path = (
            f"M{x1:.0f} {y1:.0f}C{x1 + half:.0f} {y1:.0f} {x2 - half:.0f} {y2:.0f} "
            f"{x2:.0f} {y2:.0f}"
        )
        beside_it = beside((x1, y1), (x2, y2), at_source=crowd[one.source] == 1)
    return f'{_begun(one)}<path d="{path}" marker-end="url(#arrow)"/></g>', beside_it


def _begun(one: Arrow) -> str:
    said = escape(escaped(f"{one.name}: {one.text}"))
    return f'<g class="hop {one.tone}"><title>{said}</title>'


def _box(corner: tuple[float, float], node: Node) -> str:
    x, y = corner
    name = escape(escaped(short(node.name, _NAME)))
    text = escape(escaped(f"{node.symbol} {node.text}".strip()))
    return (
        f'<g class="node {node.tone}"><title>{escape(escaped(node.name))}: {text}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX[0]}" height="{BOX[1]}" rx="8"/>'
        f'<text class="node-name" x="{x + 14:.0f}" y="{y + 26:.0f}">{name}</text>'
        f'<text class="node-text" x="{x + 14:.0f}" y="{y + 46:.0f}">{text}</text></g>'
    )
