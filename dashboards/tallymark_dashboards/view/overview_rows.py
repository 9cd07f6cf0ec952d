"""A topic as a row of the overview. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from tallymark_audit.store.reading.age import AuditAge, SilentCollector
from tallymark_audit.store.reading.heat import HeatCell
from tallymark_audit.store.reading.sums import Sums
from tallymark_audit.store.reading.worst import TopicSums
from tallymark_dashboards.view.clock import Clock
from tallymark_dashboards.view.lag import Lag
from tallymark_dashboards.view.marks import Tone, mark
from tallymark_dashboards.view.strip import Cell, strip

MOST_HOLES = 3
_HOLE = ("bad", "warn")


@dataclass(frozen=True, slots=True)
class Hole:
    """A window (start, ms) that holds the watermark, and its state."""

    edge: str
    window: int
    state: str


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """One topic. ``key`` is its identity in the page, whatever its name. ``through``: ms, 0 or less
    is not yet. ``holes``: the first windows that are bad, each once; ``more_holes``: how many more
    are known. ``judged_through`` (ms): where the audit of the topic stands still; None: it does
    not."""

    key: str
    topic: str
    sums: Sums
    through: int
    tone: Tone
    problems: str
    holes: tuple[Hole, ...]
    more_holes: int
    cells: tuple[Cell, ...]
    lag: Lag | None = None
    judged_through: int | None = None


def overview_row(
    one: TopicSums,
    cells: Iterable[HeatCell],
    clock: Clock,
    judged_through: int | None,
    lag: Lag | None = None,
    skewed: str = "",
) -> OverviewRow:
    """``cells``: of the topic, in spans of the clock. ``judged_through`` (ms): up to when it can
    be judged while a collector is silent; None: none is. ``skewed``: whose clock is ahead."""
    found = holes(one)
    tone, problems = trouble(one.sums)
    if judged_through is not None:
        tone = tone or "warn"
    if skewed:
        problems = ", ".join(filter(None, (problems, skewed)))
    return OverviewRow(
        key=row_key(one.topic),
        topic=one.topic,
        sums=one.sums,
        through=one.through,
        tone=tone,
        problems=problems,
        holes=tuple(found[:MOST_HOLES]),
        more_holes=len(found[MOST_HOLES:]),
        cells=strip(clock, cells, judged_through),
        lag=lag,
        judged_through=judged_through,
    )


def holes(one: TopicSums) -> list[Hole]:
    """The windows that hold the topic on any hop, the earliest first. A window that is bad on
    several hops is one hole; windows that are still settling are none."""
    found: dict[int, Hole] = {}
    for hop in one.hops:
        for window, state, accepted in hop.holes:
            if not accepted and mark(state).tone in _HOLE:
                found.setdefault(window, Hole(hop.edge, window, state))
    return [found[window] for window in sorted(found)]


def trouble(sums: Sums) -> tuple[Tone, str]:
    """The worst tone of the states, and how many windows are in each that is not well."""
    wrong = [name for name in sums.states if mark(name).tone in _HOLE]
    wrong.sort(key=lambda name: (mark(name).tone, name))
    tones = {mark(name).tone for name in wrong}
    tone: Tone = "bad" if "bad" in tones else "warn" if "warn" in tones else ""
    return tone, ", ".join(f"{sums.states[name]:,} {name}" for name in wrong)


def row_key(*names: str) -> str:
    """The id of a row, the same each time, of names that may hold anything."""
    return blake2b("\0".join(names).encode(errors="replace"), digest_size=6).hexdigest()


def judged_through(age: AuditAge, edges: Iterable[str]) -> int | None:
    """Up to when (ms) a topic on these edges can be judged; None: no cluster that they touch is
    behind."""
    names = list(edges)
    through = [
        _since(one) for one in age.behind if any(_touches(edge, one.cluster) for edge in names)
    ]
    return min(through, default=None)


def _touches(edge: str, cluster: str) -> bool:
    """Whether the edge begins or ends at the cluster: ``dc1-to-lake`` touches ``dc1``."""
    return edge.startswith(f"{cluster}-to-") or edge.endswith(f"-to-{cluster}")


def _since(one: SilentCollector) -> int:
    """Up to when (ms) all of its cluster was counted; 0: it never was."""
    return min(one.last_commit_ms, one.counted_through_ms or one.last_commit_ms)
