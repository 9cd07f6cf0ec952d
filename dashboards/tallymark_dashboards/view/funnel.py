"""The way of a topic, hop by hop: what each hop was given, and what of it arrived. Pure.

From producers to the last group or lake: a hop stands below those that bring it its messages. The
widths of the bars are shares of what was claimed first, so a small loss is a number, not a sliver:
every part that is not empty is at least a visible line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tallymark_audit.judge.states import SEVERITY, UNDECIDED, State, state_of
from tallymark_audit.model.cells import Edge
from tallymark_dashboards.view.marks import mark

FULL: Final = 1000
"""The widest bar, in units of the picture."""
LEAST: Final = 6
"""A part that is not empty, at least."""
KINDS: Final[Mapping[str, str]] = {
    "producer": "producers",
    "mirror": "mirror",
    "consumer": "consumer group",
    "lake": "load into the lake",
}


class SumsLike(Protocol):
    """:class:`tallymark_audit.store.reading.sums.Sums`."""

    @property
    def claimed(self) -> int: ...
    @property
    def observed(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def missing(self) -> int: ...
    @property
    def explained(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def unclaimed(self) -> int: ...
    @property
    def states(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a bar: from ``x``, so wide, of :data:`FULL`."""

    kind: str
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Digest:
    """Whether both sides of a hop hold the same messages: ``symbol`` and ``tone`` as everywhere,
    ``text`` for people."""

    symbol: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class HopRow:
    """One hop of a topic (its name on the hop). ``depth``: how many hops are before it."""

    edge: str
    topic: str
    upstream: str
    downstream: str
    kind: str
    depth: int
    sums: SumsLike
    state: str
    tone: str
    digest: Digest
    bar: tuple[Box, ...]

    @property
    def excess(self) -> int:
        """Copies beyond the first, and what was never claimed."""
        return self.sums.duplicates + self.sums.unclaimed


def funnel(
    edges: Sequence[Edge],
    sums: Mapping[tuple[str, str], SumsLike],
    contents_checked: bool = False,
) -> list[HopRow]:
    """A row a hop that has sums (by edge and its name of the topic). ``edges``: all there are or
    were; one that is not known any more comes last. ``contents_checked``: whether contents are
    compared, too, and not only identities."""
    by_name = {edge.name: edge for edge in edges}
    depths = depths_of(edges)
    widest = max((one.claimed for one in sums.values()), default=0)
    rows = [
        _row(edge, topic, by_name.get(edge), depths, one, widest, contents_checked)
        for (edge, topic), one in sums.items()
    ]
    order = {name: at for at, name in enumerate(by_name)}
    return sorted(rows, key=lambda row: (row.depth, order.get(row.edge, len(order)), row.topic))


def depths_of(edges: Iterable[Edge]) -> dict[str, int]:
    """By name of the edge, the longest way of hops before it. A ring of mirrors ends where it
    began."""
    edges = list(edges)
    depths = {edge.name: 0 for edge in edges}
    for _ in edges:
        changed = False
        for edge in edges:
            before = [
                depths[one.name] + 1
                for one in edges
                if one.downstream == edge.upstream and edge.kind != "producer" and not one.implied
            ]
            deepest = min(max(before, default=0), len(edges))
            if deepest > depths[edge.name]:
                depths[edge.name], changed = deepest, True
        if not changed:
            break
    return depths


def digest_of(states: Mapping[str, int], contents_checked: bool = False) -> Digest:
    """From the number of windows by state: both sides are alike where every decided window is
    good."""
    shown = {state_of(name): count for name, count in states.items()}
    differ = sum(count for state, count in shown.items() if state in _DIFFERENT)
    unknown = shown.get(State.UNKNOWN, 0)
    if differ:
        text = "1 window differs" if differ == 1 else f"{differ:,} windows differ"
        corrupt = shown.get(State.CORRUPT, 0)
        return Digest("✗", "bad", text + (f", {corrupt:,} in contents" if corrupt else ""))
    if unknown:
        text = "1 window is unknown" if unknown == 1 else f"{unknown:,} windows are unknown"
        return Digest("?", "warn", text)
    if not any(count for state, count in shown.items() if state not in UNDECIDED):
        return Digest("…", "wait", "not decided yet")
    return Digest("✓", "good", "contents alike" if contents_checked else "identities alike")


_DIFFERENT: Final = (
    State.LOSS,
    State.DUPLICATION,
    State.MIXED,
    State.CORRUPT,
    State.UNCLAIMED,
)


def boxes(sums: SumsLike, widest: int) -> tuple[Box, ...]:
    """The parts of a bar, one behind the other, never wider than :data:`FULL` together."""
    parts = (
        ("actual", sums.observed),
        ("excused", sums.explained),
        ("pending", sums.pending),
        ("short", sums.missing),
    )
    there = [(kind, count) for kind, count in parts if count > 0]
    if not there or widest <= 0:
        return ()
    room = min(FULL, max(FULL * sums.claimed // widest, LEAST * len(there)))
    widths = [max(LEAST, room * count // max(1, sums.claimed)) for _, count in there]
    largest = widths.index(max(widths))
    widths[largest] -= max(0, sum(widths) - room)
    found: list[Box] = []
    x = 0
    for (kind, _), width in zip(there, widths, strict=True):
        found.append(Box(kind, x, width))
        x += width
    return tuple(found)


def _row(
    name: str,
    topic: str,
    edge: Edge | None,
    depths: Mapping[str, int],
    sums: SumsLike,
    widest: int,
    contents_checked: bool,
) -> HopRow:
    states = [state_of(one) for one, count in sums.states.items() if count]
    worst = str(max(states, key=SEVERITY.__getitem__)) if states else ""
    upstream, _, downstream = name.partition("-to-")
    return HopRow(
        edge=name,
        topic=topic,
        upstream=edge.upstream if edge else upstream,
        downstream=edge.downstream if edge else downstream,
        kind=KINDS[edge.kind] if edge else "former hop",
        depth=depths.get(name, len(depths)),
        sums=sums,
        state=worst,
        tone=mark(worst).tone if worst else "",
        digest=digest_of(sums.states, contents_checked),
        bar=boxes(sums, widest),
    )
