"""From what a cell shows to its state: what was found, and whether it can be believed yet.

Every finding brings a state of its own, and the worst is the cell's. A finding that may still go
away (a report, a counter or a mirror is behind) brings the state of what it waits for instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tallymark_audit.judge.damage import Held
from tallymark_audit.judge.readiness import Readiness, reporter_held
from tallymark_audit.judge.states import SEVERITY, UNDECIDED, ReporterFacts, State, worst
from tallymark_audit.model.cells import (
    ABORTED,
    FAILED,
    FILTERED,
    IN_DOUBT,
    QUARANTINED,
    Explanation,
)
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import CellFacts, Claim, Observation

PERHAPS_AGAIN = "in hand of a consumer when it was gone: perhaps processed twice"
OTHERS = "the same records hold other contents"
REWRITTEN = "contents changed in the log after they were counted"
ABORTED_THERE = "committed, and in the log their transaction was aborted: no consumer can read them"
GONE_UPSTREAM = "deleted upstream before it was copied; it cannot be repaired"


@dataclass(frozen=True, slots=True)
class Findings:
    """What a cell shows, before asking whether it can be believed yet.

    ``missing``: some promised messages are not there; ``expired``: upstream has none of them any
    more; ``aborted_there``: downstream has all of them in aborted transactions. ``unclaimed``: why
    counted records have no claim; ``pending``: accepted, with no report of
    the result. ``rewritten``: the contents changed after they were counted. ``perhaps_again``: a
    member of the group died with messages in progress that others processed; ``unreported``:
    members that may have processed messages without a report. ``undecided``: why the numbers
    decide nothing; ``hidden``: why missing messages may be there; ``note`` is added to any state.
    ``partition`` is the cell's; ``stamped``: its records name the run that sent them."""

    missing: bool = False
    expired: bool = False
    aborted_there: bool = False
    duplicates: bool = False
    corrupt: bool = False
    rewritten: bool = False
    unclaimed: str = ""
    pending: bool = False
    explained: bool = False
    in_flight: bool = False
    surplus: bool = False
    partition: int = -1
    perhaps_again: bool = False
    unreported: frozenset[str] = frozenset()
    stamped: bool = True
    undecided: str = ""
    hidden: str = ""
    note: str = ""

    @property
    def anything(self) -> bool:
        """Whether the cell is not simply complete."""
        wrong = self.missing or self.duplicates or self.corrupt or self.surplus
        open_ = self.pending or self.undecided or self.unreported
        return bool(wrong or self.unclaimed or open_)


class CellState(NamedTuple):
    """The state of a cell, and why. ``waits``: OPEN, SETTLING or UNKNOWN where a finding, perhaps
    not the worst, may still go away; of several the one that is decided first."""

    state: State
    reason: str
    waits: State | None


def state_of(
    readiness: Readiness, reporter: ReporterFacts | None, found: Findings, end: int
) -> CellState:
    """The state of a cell and the reason for it. ``reporter`` sent its records, if it is known;
    ``end`` (ms) the end of the window."""
    if readiness.young and found.anything:
        return CellState(*readiness.young, readiness.young[0])
    if readiness.young:
        return CellState(State.COMPLETE, found.note, None)
    owing = (
        reporter_held(reporter, readiness.clock)
        if reporter and _owes(readiness, reporter, end)
        else None
    )
    if reporter is None and found.stamped:
        owing = readiness.unheard
    shown = _shown(readiness, found, owing)
    if owing and reporter and (reporter.backfill or readiness.ahead):
        shown.append(owing)
    state = worst(one for one, _ in shown)
    reasons = [why for one, why in shown if one is state and why]
    if state is State.MIXED:
        reasons = [why for _, why in shown if why]
    reason = "; ".join(dict.fromkeys([*reasons[:2], *([found.note] if found.note else [])]))
    waits = {one for one, _ in shown} & UNDECIDED
    return CellState(state, reason, min(waits, key=SEVERITY.__getitem__, default=None))


def _owes(readiness: Readiness, reporter: ReporterFacts, end: int) -> bool:
    """Whether the reporter may still claim records of the window. A window that was stamped by a
    clock ahead ends far in the future, even after the clock was corrected: there, a report after
    the last change of the window is complete."""
    if readiness.ahead and reporter.last_heard > readiness.clock.changed:
        return False
    return reporter.lacks(end)


def _shown(readiness: Readiness, found: Findings, owing: Held | None) -> list[Held]:
    shown: list[Held] = [(State.COMPLETE, "")]
    unclaimed = readiness.unclaimed(found.partition)
    if found.explained:
        shown.append((State.EXPLAINED, "not seen, and it is known why"))
    if found.perhaps_again:
        shown.append((State.EXPLAINED, PERHAPS_AGAIN))
    if held := readiness.unreported(found.unreported):
        shown.append(held)
    if found.missing:
        why = GONE_UPSTREAM if found.expired else ABORTED_THERE if found.aborted_there else ""
        held = readiness.missing(found.in_flight and not found.expired, found.partition)
        perhaps = (State.UNKNOWN, found.hidden) if found.hidden else None
        shown.append(held or perhaps or (State.LOSS, why))
    if found.duplicates:
        shown.append(readiness.repeated(found.partition) or (State.DUPLICATION, ""))
    if found.surplus:
        shown.append(owing or unclaimed or (State.DUPLICATION, ""))
    if found.corrupt:
        shown.append((State.CORRUPT, REWRITTEN if found.rewritten else OTHERS))
    if found.unclaimed:
        shown.append(owing or unclaimed or (State.UNCLAIMED, found.unclaimed))
    if found.pending:
        silent = State.UNKNOWN, "accepted, but no report says what became of it"
        shown.append(owing or unclaimed or silent)
    if found.undecided:
        shown.append((State.UNKNOWN, found.undecided))
    return shown


def excuses(facts: CellFacts, claim: Claim, seen: Observation) -> tuple[Explanation, ...]:
    """The absent sequences that are excused, each under the first reason that it has."""
    left = claim.known - seen.ranges
    said = (
        (ABORTED, claim.aborted | aborted_here(claim, seen) | stated(facts, ABORTED)),
        (FILTERED, claim.filtered | stated(facts, FILTERED)),
        (FAILED, claim.failed - claim.claimed),
        (IN_DOUBT, claim.in_doubt - claim.claimed),
        (QUARANTINED, stated(facts, QUARANTINED)),
    )
    found: list[Explanation] = []
    for reason, ranges in said:
        here = left & ranges
        if here:
            found.append(Explanation(reason, here))
            left = left - here
    return tuple(found)


def aborted_here(claim: Claim, seen: Observation) -> RangeSet:
    """What the log downstream has in aborted transactions, and was not promised. What was committed
    and is aborted in the log cannot be read by anyone: it is lost."""
    return seen.aborted - claim.claimed


def never_committed(claim: Claim) -> RangeSet:
    """What must not be seen downstream, though it was handed in."""
    return claim.aborted - claim.claimed


def stated(facts: CellFacts, reason: str) -> RangeSet:
    """Those whose absence has this reason, besides what the two sides say."""
    return next((why.ranges for why in facts.explained if why.reason == reason), EMPTY)
