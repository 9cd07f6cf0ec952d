"""Why messages that are not downstream need not be there. Pure."""

from __future__ import annotations

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
