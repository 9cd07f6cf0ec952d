"""The charts of the HTML report, drawn here as SVG: no script, no other file. Pure.

Each has the table beside it that it is made of. Colour is never the only sign: a box of the first
chart has a symbol or a number, a bar of the second one its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from tallymark_audit.judge.verdicts import GOOD, SEVERITY, UNDECIDED, State

Row = Mapping[str, Any]
"""A row of :func:`tallymark_audit.frames.completeness`: edge, topic, start, state, windows,
claimed, missing, duplicates, share."""
MOST_TOPICS: Final = 40
"""Topics that are drawn, those with the most missing first; the table has all."""
STYLE: Final = (
    "svg.chart{display:block;margin:1em 0;font:12px monospace;max-width:100%}"
    "svg.chart .good{fill:#cfe8cf}svg.chart .open{fill:#fff0b3}svg.chart .wrong{fill:#f0a8a0}"
    "svg.chart .none{fill:#f2f2f2}svg.chart .more{fill:#c9b3e6}svg.chart text{fill:#111}"
    "svg.chart .end{text-anchor:end}svg.chart .middle{text-anchor:middle}"
)
_LABEL: Final = 230
"""Room for names, in pixels."""
_CHARACTERS: Final = 30
"""So many characters fit."""
_BOX_WIDTH: Final = 26
_BOX: Final = 22
_BAR: Final = 420
_HEAD: Final = 96
"""Room for the title and for times that are written at an angle."""


@dataclass(frozen=True, slots=True)
class Box:
    """A topic in an hour, or a day: the worst of its hops. ``share`` is nan where nothing was
    claimed."""

    state: State
    missing: int
    duplicates: int
    share: float

    @property
    def kind(self) -> str:
        """Its class in the style."""
        return kind_of(self.state)

    @property
    def sign(self) -> str:
        """What stands in the box."""
        if self.state in GOOD:
            return "✓"
        if self.state in UNDECIDED:
            return "?"
        return short(self.missing or self.duplicates)


def kind_of(state: State) -> str:
    """How a state is coloured: good, open or wrong."""
    return "good" if state in GOOD else "open" if state in UNDECIDED else "wrong"


def short(count: int) -> str:
    """A count that fits a box: ``999``, ``1k``, ``23M``. Rounded down, but never to nothing."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count // size}{unit}"
    return str(count)


def boxes(rows: Iterable[Row]) -> dict[tuple[str, Any], Box]:
    """By topic and start: the worst state, the least share, and what is missing and repeated on all
    hops together (a message is missing on one hop only: the next one does not owe it)."""
    found: dict[tuple[str, Any], Box] = {}
    for row in rows:
        at = str(row["topic"]), row["start"]
        one = Box(
            State(str(row["state"])), int(row["missing"]), int(row["duplicates"]), row["share"]
        )
        known = found.get(at)
        if known is not None:
            shares = [share for share in (known.share, one.share) if share == share]
            one = Box(
                max(known.state, one.state, key=SEVERITY.__getitem__),
                known.missing + one.missing,
                known.duplicates + one.duplicates,
                min(shares, default=float("nan")),
            )
        found[at] = one
    return found


def by_topic(rows: Sequence[Row], names: Mapping[Any, str]) -> Iterator[str]:
    """Completeness by topic and hour, a box each; ``names``: the text of each start, in order."""
    found = boxes(rows)
    missing: dict[str, int] = {}
    for (topic, _), box in found.items():
        missing[topic] = missing.get(topic, 0) + box.missing + box.duplicates
    topics = sorted(missing, key=lambda topic: (-missing[topic], topic))[:MOST_TOPICS]
    width = _LABEL + _BOX_WIDTH * len(names) + 40
    height = _BOX * len(topics) + _HEAD + 4
    yield _opening(width, height, "Completeness by topic and time")
    for column, name in enumerate(names.values()):
        if column % (1 + len(names) // 24) == 0:
            x = _LABEL + _BOX_WIDTH * column + _BOX_WIDTH // 2
            turn = f"translate({x + 4},{_HEAD - 6}) rotate(-60)"
            yield f'<text transform="{turn}">{escape(name)}</text>'
    for line, topic in enumerate(topics):
        y = _HEAD + _BOX * line
        yield _text(_LABEL - 8, y + 15, _cut(topic), "end")
        for column, start in enumerate(names):
            x = _LABEL + _BOX_WIDTH * column
            yield _box(x, y, topic, names[start], found.get((topic, start)))
    yield "</svg>"
    if len(missing) > len(topics):
        yield f"<p>{len(missing) - len(topics):,} more topics are in the table.</p>"


def by_edge(rows: Iterable[Row]) -> Iterator[str]:
    """What is missing and repeated on each hop, with the table beside it."""
    missing: dict[str, int] = {}
    repeated: dict[str, int] = {}
    for row in rows:
        edge = str(row["edge"])
        missing[edge] = missing.get(edge, 0) + int(row["missing"])
        repeated[edge] = repeated.get(edge, 0) + int(row["duplicates"])
    most = max([*missing.values(), *repeated.values(), 1])
    yield _opening(_LABEL + _BAR + 170, 2 * _BOX * len(missing) + 30, "Messages missing by hop")
    for line, edge in enumerate(missing):
        y = 30 + 2 * _BOX * line
        yield _text(_LABEL - 8, y + 14, _cut(edge), "end")
        yield from _bar(y, missing[edge], most, "wrong", f"{edge}: missing")
        yield from _bar(y + _BOX - 4, repeated[edge], most, "more", f"{edge}: repeated")
    yield "</svg>"
    yield '<table class="spans"><caption>Messages by hop</caption><tr><th scope="col">hop</th>'
    yield '<th scope="col">missing</th><th scope="col">repeated</th></tr>'
    for edge in missing:
        yield f'<tr><th scope="row">{escape(edge)}</th><td>{missing[edge]:,}</td>'
        yield f"<td>{repeated[edge]:,}</td></tr>"
    yield "</table>"


def _opening(width: int, height: int, title: str) -> str:
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" aria-label="{title}"><title>{title}</title>'
        f'<text x="0" y="14">{title}</text>'
    )


def _box(x: int, y: int, topic: str, when: str, box: Box | None) -> str:
    place = f'x="{x}" y="{y}" width="{_BOX_WIDTH - 2}" height="{_BOX - 2}"'
    if box is None:
        return f'<rect {place} class="none"><title>{escape(topic)} {when}: nothing</title></rect>'
    share = "" if box.share != box.share else f", {floored(box.share)} there"
    told = f"{topic} {when}: {box.state}, {box.missing:,} missing, {box.duplicates:,} repeated"
    return (
        f'<g><title>{escape(told + share)}</title><rect {place} class="{box.kind}"/>'
        f"{_text(x + _BOX_WIDTH // 2 - 1, y + 14, box.sign, 'middle')}</g>"
    )


def floored(share: float) -> str:
    """Percent with four places; never 100 while anything is missing."""
    return "100 %" if share >= 1 else f"{int(share * 1_000_000) / 10_000:.4f} %"


def _bar(y: int, count: int, most: int, kind: str, told: str) -> Iterator[str]:
    """A bar that is at least a pixel wide where there is anything."""
    width = max(1, count * _BAR // most) if count else 0
    what = f"{told.rpartition(' ')[2]} {count:,}"
    yield f'<g><title>{escape(told)} {count:,}</title><rect x="{_LABEL}" y="{y}"'
    yield f' height="{_BOX - 6}" width="{width}" class="{kind}"/>'
    yield f"{_text(_LABEL + width + 6, y + 13, what)}</g>"


def _text(x: int, y: int, text: str, kind: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


def _cut(name: str) -> str:
    return name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1]}…"
