"""Judge one window of one topic on one edge. Pure: every fact, the time too, is an argument.

The rule is one line, in integers and per cell, as ranges of sequences::

    missing = claimed − observed − explained          excess = copies downstream − copies upstream

Loss and duplication are found apart, so they cannot cancel. The state says how far that rule can
be trusted yet; absence of data never makes a window COMPLETE:

    OPEN        the window has not ended
    SETTLING    it has; records, reports or counters may still be under way
    UNKNOWN     a reporter or a counter that is needed has gone silent
    COMPLETE    all that was claimed is there, once
    EXPLAINED   complete but for records whose absence has a stated reason
    LOSS, DUPLICATION, MIXED (both), UNCLAIMED (seen, but nobody claimed it)
    CORRUPT     reserved for the content check

Both the collector (provisional) and Spark (authoritative) call :func:`judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tallymark_audit.cells import CellKey, Copy, Edge
from tallymark_audit.gate import Gate, Held, reporter_held
from tallymark_audit.ranges import EMPTY, RangeSet
from tallymark_audit.sides import CellFacts, Claim, Observation
from tallymark_audit.states import (
    GOOD,
    SEVERITY,
    UNDECIDED,
    Clock,
    ReporterFacts,
    State,
    worst,
)

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
    "worst",
]


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """The judgement of one cell. Ranges are sequences; ``missing_count`` and the other counts
    also cover records without a stamp, which have no sequences."""

    key: CellKey
    state: State
    claimed: int = 0
    observed: int = 0
    missing: RangeSet = EMPTY
    missing_count: int = 0
    duplicates: int = 0
    copies: tuple[Copy, ...] = ()
    unclaimed: RangeSet = EMPTY
    unclaimed_count: int = 0
    explained: RangeSet = EMPTY
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one window. Counts are messages, summed over the cells; ``observed`` counts
    distinct ones. ``cells`` holds every cell that is not simply complete, worst first."""

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


def judge(
    edge: Edge,
    topic: str,
    window: int,
    cells: Iterable[CellFacts],
    reporters: Sequence[ReporterFacts],
    clock: Clock,
) -> Verdict:
    """The verdict of ``window`` (start, ms). ``cells`` are those of the window on the edge;
    ``reporters`` those who answer for the hop: on a producer edge the runs that publish to the
    topic or whose instance was seen, on a mirror edge the mirrors, where they report."""
    gate = Gate.of(edge, window, reporters, clock)
    judged = [_judge_cell(facts, gate) for facts in cells]
    states = [cell.state for cell in judged] + ([gate.held[0]] if gate.held else [])
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
        reasons=_reasons(gate.held, judged),
        cells=tuple(bad),
    )


def _judge_cell(facts: CellFacts, gate: Gate) -> CellVerdict:
    claim = facts.claim or Claim(facts.key)
    seen = facts.observation or Observation(facts.key)
    if not facts.key.stamped:
        return _judge_count(facts, claim, seen, gate)
    claimed, known, pending = claim.claimed, claim.known, claim.pending
    duplicates, copies = _excess(claim, seen)
    missing = claimed - seen.ranges - facts.explained
    unclaimed = seen.ranges - known
    # What failed or is in doubt was never promised; what has a stated reason is excused.
    explained = ((known - claimed - pending) | (claimed & facts.explained)) - seen.ranges
    state, reason = _cell_state(
        gate,
        gate.reporters.get(facts.key.instance),
        _Findings(
            missing=bool(missing),
            duplicates=bool(duplicates),
            unclaimed=bool(unclaimed),
            pending=bool(pending - seen.ranges),
            explained=bool(explained),
            in_flight=facts.in_flight,
        ),
        facts.key.window + gate.clock.window_ms,
    )
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=claimed.size,
        observed=seen.ranges.size,
        missing=missing,
        missing_count=missing.size,
        duplicates=duplicates,
        copies=copies,
        unclaimed=unclaimed,
        unclaimed_count=unclaimed.size,
        explained=explained,
        reason=reason,
    )


def _judge_count(facts: CellFacts, claim: Claim, seen: Observation, gate: Gate) -> CellVerdict:
    """Records without a stamp: only their number is known, so only a net difference is."""
    observed = seen.count if facts.observed_count is None else facts.observed_count
    missing, excess = max(0, claim.count - observed), max(0, observed - claim.count)
    findings = _Findings(missing=bool(missing), unclaimed=bool(excess), in_flight=facts.in_flight)
    state, reason = _cell_state(gate, None, findings, facts.key.window + gate.clock.window_ms)
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=claim.count,
        observed=observed,
        missing_count=missing,
        unclaimed_count=excess,
        reason=reason or ("" if state is State.COMPLETE else "no stamp: counted, not named"),
    )


@dataclass(frozen=True, slots=True)
class _Findings:
    """What a cell shows, before asking whether it can be believed yet."""

    missing: bool = False
    duplicates: bool = False
    unclaimed: bool = False
    pending: bool = False
    explained: bool = False
    in_flight: bool = False


def _cell_state(
    gate: Gate, reporter: ReporterFacts | None, found: _Findings, end: int
) -> tuple[State, str]:
    if gate.young:
        anything = found.missing or found.duplicates or found.unclaimed or found.pending
        return gate.young if anything else (State.COMPLETE, "")
    owing = reporter_held(reporter, gate.clock) if reporter and reporter.lacks(end) else None
    shown: list[tuple[State, str]] = [(State.COMPLETE, "")]
    if found.duplicates:
        shown.append((State.DUPLICATION, ""))
    if found.missing:
        shown.append(gate.missing(found.in_flight) or (State.LOSS, ""))
    if found.unclaimed:
        who = "seen downstream, but no producer claimed it"
        why = who if gate.producer else "seen downstream, but not upstream any more"
        shown.append(owing or gate.upstream or (State.UNCLAIMED, why))
    if found.pending:
        silent = State.UNKNOWN, "accepted, but no report says what became of it"
        shown.append(owing or gate.upstream or silent)
    if owing and reporter and reporter.backfill:
        shown.append(owing)
    if found.explained:
        shown.append((State.EXPLAINED, "not seen, and upstream says why"))
    state = worst(one for one, _ in shown)
    return state, next((why for one, why in shown if one is state), "")


def _excess(claim: Claim, seen: Observation) -> tuple[int, tuple[Copy, ...]]:
    """Copies that this edge added: those downstream beyond the ones it was given."""
    if not seen.duplicate_count:
        return 0, ()
    listed = len(seen.copies) == seen.duplicate_count
    if not listed or len(claim.copies) != claim.duplicate_count:
        return max(0, seen.duplicate_count - claim.duplicate_count), seen.copies
    given = Counter(copy.sequence for copy in claim.copies)
    added: list[Copy] = []
    for copy in seen.copies:
        if given[copy.sequence] > 0:
            given[copy.sequence] -= 1
        else:
            added.append(copy)
    return len(added), tuple(added)


def _reasons(held: Held | None, cells: Sequence[CellVerdict]) -> tuple[str, ...]:
    reasons = [held[1]] if held else []
    reasons += [cell.reason for cell in cells if cell.reason]
    return tuple(dict.fromkeys(reasons))[:8]
