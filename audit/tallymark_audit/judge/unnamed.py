"""Judge by number and fingerprint what cannot be named: cells with more ranges than are kept.

Of such a cell one side, or both, has only a count and the sum of its sequences' hashes. Equal sums
of equally many show that both are the same records (but for one chance in 2^64). Where they differ,
the numbers give bounds: fewer than promised means that some are missing, whatever else there is;
more than were ever handed to a producer means that some are repeated. In between nothing is
certain, and nothing is called complete. As many as promised, but others: some are missing and as
many too many.

Where there were more runs than may be kept, records are counted without their run. Messages missing
from a cell may be among them::

    missing     of what was promised, so many are not in the cell
    hidden      so many records of the topic and window are counted without their run

    missing = 0             as ever: what is in a cell was counted by name
    0 < missing <= hidden   UNKNOWN: all of it may be there, so none is named
    missing > hidden        LOSS: even if all that is hidden were the cell's, it lacks some; so many
                            are reported as are missing for certain

So nothing is ever called lost that is there, and nothing complete that is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tallymark_audit.model.hashing import MASK, fingerprint, mix
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import UNHASHED, Claim, Observation

NAMELESS = "more ranges than are kept: counted and hashed, not named"


@dataclass(frozen=True, slots=True)
class Weighed:
    """``missing`` and ``surplus`` are at least so many. ``same``: the very records that were
    promised, less those that are excused. ``undecided``: why nothing is certain."""

    claimed: int
    observed: int
    missing: int = 0
    duplicates: int = 0
    surplus: int = 0
    same: bool = False
    excused: bool = False
    undecided: str = ""


def is_nameless(claim: Claim, seen: Observation) -> bool:
    """Whether a side of the cell has no ranges."""
    return claim.summary is not None or seen.fingerprint is not None


def weigh(claim: Claim, seen: Observation, excused: RangeSet) -> Weighed:
    """Compare a cell by its numbers. ``excused``: sequences that need not be there."""
    told = claim.numbers()
    promised = told.acknowledged
    if claim.acks == 0 and claim.summary is not None:
        promised = told.accepted - told.failed - told.in_doubt
        return _bounds(claim, seen, promised, told.accepted - promised, excused.size, hashed=False)
    others = max(0, told.accepted - promised)
    if UNHASHED in ((told.fingerprint if claim.summary else 0), seen.fingerprint):
        return _bounds(claim, seen, promised, others, excused.size, hashed=False)
    observed = seen.count - seen.duplicate_count
    same = _same(claim, seen, promised, excused)
    if same is not None:
        again = max(0, seen.duplicate_count - claim.duplicate_count)
        return Weighed(promised, observed, duplicates=again, same=True, excused=bool(same))
    return _bounds(claim, seen, promised, others, excused.size, hashed=True)


def _same(claim: Claim, seen: Observation, promised: int, excused: RangeSet) -> RangeSet | None:
    """What has to be excused for both sides to be the same records; None: they are not. Numbers are
    compared first: hashing the sequences of a false claim could take minutes."""
    seen_counts = {seen.count, seen.count - seen.duplicate_count}
    if not seen_counts & {promised, promised + claim.duplicate_count, promised - excused.size}:
        return None
    sums = _sums_of(seen)
    if sums & _sums_claimed(claim, promised):
        return EMPTY
    less = (promised - excused.size, claim.fingerprinted() - fingerprint(excused) & MASK)
    return excused if excused and less in sums else None


def _bounds(
    claim: Claim, seen: Observation, promised: int, others: int, excused: int, hashed: bool
) -> Weighed:
    """``others``: records that may be there without a promise: handed in, and not acknowledged."""
    slack = others + claim.duplicate_count
    observed = seen.count - seen.duplicate_count
    missing = max(0, promised - excused - seen.count)
    surplus = max(0, seen.count - promised - slack)
    if missing or surplus:
        return Weighed(promised, observed, missing=missing, surplus=surplus)
    if hashed and not slack and not excused:
        return Weighed(promised, observed, missing=1, surplus=1)
    return Weighed(
        promised,
        observed,
        undecided=f"{seen.count} seen of {promised} promised and {slack} that may be there: "
        "the numbers do not tell which",
    )


Sum = tuple[int, int]
"""How many, and the sum of their hashes."""


def _sums_of(seen: Observation) -> set[Sum]:
    """What was seen: as it is, with every copy, and where that is known, each sequence once."""
    if seen.fingerprint is not None:
        return {(seen.count, seen.fingerprint)}
    once = seen.ranges.size, fingerprint(seen.ranges)
    if len(seen.copies) != seen.duplicate_count:
        return {once}
    copies = sum(mix(copy.sequence) for copy in seen.copies)
    return {once, (seen.count, once[1] + copies & MASK)}


def _sums_claimed(claim: Claim, promised: int) -> set[Sum]:
    """What was promised: each sequence once, and with the copies that upstream has itself."""
    once = promised, claim.fingerprinted()
    if not claim.duplicate_count or len(claim.copies) != claim.duplicate_count:
        return {once}
    copies = sum(mix(copy.sequence) for copy in claim.copies)
    return {once, (once[0] + claim.duplicate_count, once[1] + copies & MASK)}


def may_hide(missing: int, hidden: int) -> str:
    """Why what is ``missing`` of a cell may be among ``hidden`` records; nothing if it cannot."""
    if not 0 < missing <= hidden:
        return ""
    return (
        f"what it lacks may be among {hidden} records of more runs than are kept, which are "
        "counted, not told apart"
    )


def at_least(missing: int, hidden: int) -> int:
    """How many are missing for certain."""
    return max(0, missing - hidden)


def not_told_apart(records: int) -> str:
    """The reason of an overflow cell."""
    return f"{records} records of more new runs than are kept: counted, not told apart"
