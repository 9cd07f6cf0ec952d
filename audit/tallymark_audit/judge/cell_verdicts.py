"""Judge one cell of a window: what is missing, repeated, changed or not claimed. Pure.

A cell is judged as ranges of sequences where both sides have them, as numbers and sums of hashes
where one side has too many ranges (:mod:`.unnamed`), and by its count alone where its records have
no stamp. What the findings mean for the state is in :mod:`.findings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tallymark_audit.judge.findings import (
    Findings,
    aborted_here,
    excuses,
    never_committed,
    state_of,
    stated,
)
from tallymark_audit.judge.readiness import Readiness
from tallymark_audit.judge.states import (
    State,
)
from tallymark_audit.judge.unnamed import (
    NAMELESS,
    at_least,
    is_nameless,
    may_hide,
    not_told_apart,
    weigh,
)
from tallymark_audit.model.cells import (
    EXPIRED,
    FILTERED,
    IN_DOUBT,
    QUARANTINED,
    Block,
    CellKey,
    Copy,
    Edge,
    Explanation,
)
from tallymark_audit.model.hashing import BLOCK
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import Levels, beyond, copies_in
from tallymark_audit.model.sides import CellFacts, Claim, Observation


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """The judgement of one cell. Ranges are sequences; ``missing_count`` and the other counts
    also cover records that cannot be named (no stamp, or too many ranges), which have none.

    ``explained`` are those whose absence is excused, ``explanations`` which of them why, and which
    of the missing ones upstream had deleted (``expired``). ``repeated`` are the sequences of which
    there are more than upstream, at each level one copy more
    (:mod:`tallymark_audit.model.repeats`); ``copies`` is where these lie. Both are empty where only
    their number is known. ``corrupt`` are numbers of blocks: block 0 is sequences 0 to 1,023.
    ``waits``: see :class:`~tallymark_audit.judge.findings.CellState`; it is not stored."""

    key: CellKey
    state: State
    claimed: int = 0
    observed: int = 0
    missing: RangeSet = EMPTY
    missing_count: int = 0
    duplicates: int = 0
    repeated: Levels = ()
    copies: tuple[Copy, ...] = ()
    unclaimed: RangeSet = EMPTY
    unclaimed_count: int = 0
    explained: RangeSet = EMPTY
    explanations: tuple[Explanation, ...] = ()
    corrupt: tuple[int, ...] = ()
    reason: str = ""
    waits: State | None = field(default=None, compare=False)

    @property
    def expired(self) -> RangeSet:
        """Those of the missing that upstream no longer had when they were to be passed on."""
        return next((why.ranges for why in self.explanations if why.reason == EXPIRED), EMPTY)


def judge_cell(edge: Edge, facts: CellFacts, readiness: Readiness, hidden: int) -> CellVerdict:
    """The judgement of a cell. ``hidden``: how many records downstream may be of any cell of the
    window (:mod:`.unnamed`)."""
    claim = facts.claim or Claim(facts.key)
    seen = facts.observation or Observation(facts.key)
    if facts.key.overflow:
        return _judge_overflow(facts, claim, seen, readiness)
    if not facts.key.stamped:
        return _judge_unstamped(facts, claim, seen, readiness, hidden)
    if is_nameless(claim, seen):
        return _judge_nameless(facts, claim, seen, readiness, hidden)
    return _judge_named(edge, facts, claim, seen, readiness, hidden)


def _judge_overflow(
    facts: CellFacts, claim: Claim, seen: Observation, readiness: Readiness
) -> CellVerdict:
    """Records of more runs than are kept. It is not known whether all of them are there: where
    producers are judged they are UNCLAIMED by number, on other edges UNKNOWN."""
    observed = seen.count if facts.observed_count is None else facts.observed_count
    strangers = observed if readiness.kind == "producer" else 0
    findings = Findings(
        unclaimed=not_told_apart(observed) if strangers else "",
        undecided="" if strangers and not claim.count else not_told_apart(claim.count or observed),
        partition=facts.key.partition,
        stamped=False,
    )
    state, reason, waits = state_of(
        readiness, None, findings, facts.key.window + readiness.clock.window_ms
    )
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=claim.count,
        observed=observed,
        unclaimed_count=strangers,
        reason=reason,
        waits=waits,
    )


def _judge_named(
    edge: Edge, facts: CellFacts, claim: Claim, seen: Observation, readiness: Readiness, hidden: int
) -> CellVerdict:
    claimed, known, pending = claim.claimed, claim.known, claim.pending
    duplicates, repeated, copies = _excess(claim, seen)
    perhaps_again = stated(facts, IN_DOUBT) & claimed & seen.ranges
    excused = excuses(facts, claim, seen)
    if perhaps_again:
        excused = (*excused, Explanation(IN_DOUBT, perhaps_again))
    explained = RangeSet(pair for one in excused for pair in one.ranges)
    missing = claimed - seen.ranges - explained
    expired = missing & (claim.expired | stated(facts, EXPIRED))
    unclaimed = seen.ranges - (known - never_committed(claim))
    if edge.uncommitted:
        unclaimed = unclaimed - claim.aborted
    corrupt = _corrupt(claim, seen, claimed)
    state, reason, waits = state_of(
        readiness,
        readiness.reporters.get(facts.key.instance),
        Findings(
            missing=bool(missing),
            hidden=may_hide(missing.size, hidden),
            expired=bool(expired) and expired == missing,
            aborted_there=bool(missing) and not missing - seen.aborted,
            duplicates=bool(duplicates),
            corrupt=bool(corrupt),
            rewritten=bool(_rewritten(seen)),
            unclaimed=_strangers(readiness, claim, unclaimed),
            pending=bool(pending - seen.ranges - explained),
            explained=bool(explained - perhaps_again),
            in_flight=facts.in_flight,
            partition=facts.key.partition,
            perhaps_again=bool(perhaps_again),
            unreported=facts.unreported,
        ),
        facts.key.window + readiness.clock.window_ms,
    )
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=claimed.size,
        observed=seen.ranges.size,
        missing=missing if missing.size > hidden else EMPTY,
        missing_count=at_least(missing.size, hidden),
        duplicates=duplicates,
        repeated=repeated,
        copies=copies,
        unclaimed=unclaimed,
        unclaimed_count=unclaimed.size,
        explained=explained,
        explanations=(*excused, Explanation(EXPIRED, expired)) if expired else excused,
        corrupt=corrupt,
        reason=reason,
        waits=waits,
    )


def _judge_nameless(
    facts: CellFacts, claim: Claim, seen: Observation, readiness: Readiness, hidden: int
) -> CellVerdict:
    """A cell with more ranges than are kept, on one side or both."""
    excused = aborted_here(claim, seen) | stated(facts, FILTERED) | claim.filtered
    excused = excused | stated(facts, QUARANTINED)
    if readiness.kind == "producer":
        excused = excused | claim.aborted
    weighed = weigh(claim, seen, excused)
    missing = max(0, weighed.missing - facts.excused)
    told = claim.numbers()
    corrupt = _rewritten(seen)
    if weighed.same and not weighed.excused:
        corrupt = tuple(sorted({*corrupt, *_differing(claim.blocks, seen.blocks)}))
    pending = told.accepted - told.acknowledged - told.failed - told.in_doubt
    state, reason, waits = state_of(
        readiness,
        readiness.reporters.get(facts.key.instance),
        Findings(
            missing=bool(missing),
            hidden=may_hide(missing, hidden),
            duplicates=bool(weighed.duplicates),
            surplus=bool(weighed.surplus),
            corrupt=bool(corrupt),
            rewritten=bool(_rewritten(seen)),
            pending=pending > 0 and claim.acks != 0 and seen.count < told.accepted,
            explained=weighed.excused
            or missing < weighed.missing
            or bool(weighed.same and told.failed + told.in_doubt),
            in_flight=facts.in_flight,
            partition=facts.key.partition,
            undecided=weighed.undecided,
            unreported=facts.unreported,
            note=NAMELESS,
        ),
        facts.key.window + readiness.clock.window_ms,
    )
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=weighed.claimed,
        observed=weighed.observed,
        missing_count=at_least(missing, hidden),
        duplicates=weighed.duplicates + weighed.surplus,
        copies=seen.copies if weighed.duplicates else (),
        corrupt=corrupt,
        reason=reason,
        waits=waits,
    )


def _judge_unstamped(
    facts: CellFacts, claim: Claim, seen: Observation, readiness: Readiness, hidden: int
) -> CellVerdict:
    """Records without a stamp: only their number is known, so only a net difference is."""
    observed = seen.count if facts.observed_count is None else facts.observed_count
    lacking, excess = max(0, claim.count - observed), max(0, observed - claim.count)
    missing = max(0, lacking - facts.excused)
    findings = Findings(
        missing=bool(missing),
        hidden=may_hide(missing, hidden),
        unclaimed=_UNCLAIMED[readiness.kind == "producer"] if excess else "",
        explained=missing < lacking,
        in_flight=facts.in_flight,
        partition=facts.key.partition,
        unreported=facts.unreported,
        stamped=False,
        note="no stamp: counted, not named",
    )
    state, reason, waits = state_of(
        readiness, None, findings, facts.key.window + readiness.clock.window_ms
    )
    return CellVerdict(
        key=facts.key,
        state=state,
        claimed=claim.count,
        observed=observed,
        missing_count=at_least(missing, hidden),
        unclaimed_count=excess,
        reason=reason,
        waits=waits,
    )


_UNCLAIMED = {
    True: "seen downstream, but no producer claimed it",
    False: "seen downstream, but not upstream any more",
}


_UNCOMMITTED = {
    True: "seen downstream, though its producer reports that its transaction was aborted",
    False: "seen downstream, though upstream its transaction was aborted",
}


def _strangers(readiness: Readiness, claim: Claim, unclaimed: RangeSet) -> str:
    """Why records that were counted have no claim; ``""`` if all have one."""
    if not unclaimed:
        return ""
    if not unclaimed - claim.aborted:
        return _UNCOMMITTED[readiness.kind == "producer"]
    return _UNCLAIMED[readiness.kind == "producer"]


def _corrupt(claim: Claim, seen: Observation, claimed: RangeSet) -> tuple[int, ...]:
    """Blocks of which both sides hold the very same sequences, once each, and other contents; and
    those that do not hold what they did when they were counted."""
    found = list(_rewritten(seen))
    for block in _differing(claim.blocks, seen.blocks):
        span = RangeSet.single(block * BLOCK, block * BLOCK + BLOCK - 1)
        here = seen.ranges & span
        records = next(one.records for one in seen.blocks if one.block == block)
        if here == claimed & span and here.size == records:
            found.append(block)
    return tuple(sorted(set(found)))


def _rewritten(seen: Observation) -> tuple[int, ...]:
    return tuple(sorted({block.block for block in seen.rewritten}))


def _differing(one: Sequence[Block], other: Sequence[Block]) -> tuple[int, ...]:
    """Blocks of as many records on both sides whose hashes are not the same."""
    theirs = {block.block: block for block in other}
    return tuple(
        mine.block
        for mine in one
        if (there := theirs.get(mine.block)) is not None
        and mine.records == there.records
        and mine.hash != there.hash
    )


def _excess(claim: Claim, seen: Observation) -> tuple[int, Levels, tuple[Copy, ...]]:
    """Copies that this edge added: those downstream beyond the ones it was given, of the same
    sequence where that is known. How many, of which sequences, and where they lie."""
    if not seen.duplicate_count:
        return 0, (), ()
    there, given = seen.repeated, claim.repeated
    if there is None or given is None:
        return max(0, seen.duplicate_count - claim.duplicate_count), (), seen.copies
    added = beyond(there, given)
    return copies_in(added), added, _last_of(seen.copies, added)


def _last_of(copies: Sequence[Copy], added: Levels) -> tuple[Copy, ...]:
    """Of each sequence as many of the last copies as were added."""
    taken: Counter[int] = Counter()
    found: list[Copy] = []
    for copy in reversed(copies):
        if taken[copy.sequence] < sum(copy.sequence in level for level in added):
            taken[copy.sequence] += 1
            found.append(copy)
    return tuple(reversed(found))
