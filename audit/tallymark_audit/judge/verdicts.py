"""Judge one window of one topic on one edge. Pure: every fact, the time too, is an argument.

The rule is one line, in integers and per cell, as ranges of sequences::

    missing = claimed − observed − explained          excess = copies downstream − copies upstream

Loss and duplication are found apart, so they cannot cancel. The state says how far that rule can
be trusted yet; absence of data never makes a window COMPLETE:

    OPEN        the window has not ended
    SETTLING    it has; records, reports or counters may still be under way
    UNKNOWN     a reporter or a counter that is needed has gone silent, or a log cannot be read
    COMPLETE    all that was claimed is there, once
    EXPLAINED   complete but for records whose absence has a stated reason: failed, in doubt,
                aborted, filtered
    UNCLAIMED   counted downstream, but no reporter claimed it
    DUPLICATION, LOSS, CORRUPT (the same records, other contents), MIXED (several of these)

Messages that retention deleted before they were passed on are LOSS, with that reason: they were
promised, and they will not come. Both the collector (provisional) and Spark (authoritative) call
:func:`judge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tallymark_audit.judge.cell_verdicts import CellVerdict, judge_cell
from tallymark_audit.judge.damage import UNDAMAGED, Damage, Held
from tallymark_audit.judge.readiness import Readiness
from tallymark_audit.judge.skewed import skewed_ahead
from tallymark_audit.judge.states import (
    GOOD,
    SEVERITY,
    UNDECIDED,
    Clock,
    ReporterFacts,
    State,
    worst,
)
from tallymark_audit.model.cells import (
    Edge,
)
from tallymark_audit.model.sides import CellFacts, Claim

__all__ = [
    "GOOD",
    "SEVERITY",
    "UNDECIDED",
    "CellVerdict",
    "Clock",
    "ReporterFacts",
    "State",
    "Verdict",
    "judge",
    "undecidable",
    "worst",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one window. Counts are messages, summed over the cells; ``observed`` counts
    distinct ones. ``cells`` holds every cell that is not simply complete, worst first. ``held``:
    what the window as a whole would be without them, where it waits for something; an alarm
    outranks that, and is still worth another look. ``young_until`` (ms): before it, as far as is
    known when it was judged, it is too young to be decided."""

    edge: str
    topic: str
    window: int
    state: State
    claimed: int = 0
    observed: int = 0
    missing: int = 0
    duplicates: int = 0
    unclaimed: int = 0
    explained: int = 0
    reasons: tuple[str, ...] = ()
    cells: tuple[CellVerdict, ...] = ()
    held: State | None = None
    young_until: int = field(default=0, compare=False)


def judge(
    edge: Edge,
    topic: str,
    window: int,
    cells: Iterable[CellFacts],
    reporters: Sequence[ReporterFacts],
    clock: Clock,
    damage: Damage = UNDAMAGED,
    hidden: int = 0,
) -> Verdict:
    """The verdict of ``window`` (start, ms). ``cells`` are those of the window on the edge;
    ``reporters`` are those that report on the hop: on a producer edge the runs that publish to the
    topic or whose instance was seen; on a mirror edge the mirror, if it reports how far it has
    copied; on a consumer edge the runs of the group. ``damage``: logs that cannot be read to their
    end. ``hidden``: how many records downstream may be of any cell of the window
    (:mod:`.unnamed`)."""
    readiness = Readiness.of(edge, window, reporters, clock, damage)
    cells = list(cells)
    judged = [judge_cell(edge, facts, readiness, hidden) for facts in cells]
    states = [cell.state for cell in judged] + ([readiness.held[0]] if readiness.held else [])
    bad = sorted(
        (cell for cell in judged if cell.state is not State.COMPLETE),
        key=lambda cell: (-SEVERITY[cell.state], cell.key),
    )
    return Verdict(
        edge=edge.name,
        topic=topic,
        window=window,
        state=worst(states),
        claimed=sum(cell.claimed for cell in judged),
        observed=sum(cell.observed for cell in judged),
        missing=sum(cell.missing_count for cell in judged),
        duplicates=sum(cell.duplicates for cell in judged),
        unclaimed=sum(cell.unclaimed_count for cell in judged),
        explained=sum(cell.explained.size for cell in judged),
        reasons=_reasons(skewed_ahead(cells, readiness), readiness.held, judged),
        cells=tuple(bad),
        held=readiness.held[0] if readiness.held else None,
        young_until=readiness.young_until,
    )


def undecidable(
    edge: Edge, topic: str, window: int, cells: Iterable[CellFacts], why: str
) -> Verdict:
    """The verdict where messages of two topics cannot be distinguished (``why``)."""
    claimed = sum((one.claim or Claim(one.key)).numbers().acknowledged for one in cells)
    return Verdict(edge.name, topic, window, State.UNKNOWN, claimed=claimed, reasons=(why,))


def _reasons(
    skewed: Sequence[str], held: Held | None, cells: Sequence[CellVerdict]
) -> tuple[str, ...]:
    reasons = [*skewed, *([held[1]] if held else [])]
    reasons += [cell.reason for cell in cells if cell.reason]
    return tuple(dict.fromkeys(reasons))[:8]
