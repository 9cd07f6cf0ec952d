"""What the two ends of a hop report about a cell, and both together.

A :class:`Claim` says what should be there, an :class:`Observation` what a counter saw. For mirrors
and consumers of a cluster, the observation of that cluster is the claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tallymark_audit.model import sketches
from tallymark_audit.model.cells import Block, CellKey, Copy, Explanation, Summary, merge_blocks
from tallymark_audit.model.hashing import MASK, fingerprint
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS, Levels, copies_in, levels_of, together

MOST_HASHED: Final = 1 << 24
"""Sequences of ranges that are hashed to be added to what has no ranges: 0.1 s. To claim a range
takes a few bytes, however long it is."""
UNHASHED: Final = -1
"""In place of a fingerprint that is not known."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What should be there. Ranges are sequences; count, bytes and timestamps (ms) are of what was
    accepted. ``acks`` is the producer's: with 0 nothing is ever acknowledged, so the claim is what
    was accepted. ``aborted``, ``filtered`` and ``expired`` are claimed ones whose absence has that
    reason. A ``summary`` says that ranges are not known (any more), only how many there were.
    ``duplicate_count`` is how many claimed records are upstream beyond the first of each sequence,
    so that a mirror is not blamed for what it was given; ``copies`` and ``again`` name them, see
    :class:`Observation`."""

    key: CellKey
    accepted: RangeSet = EMPTY
    acknowledged: RangeSet = EMPTY
    failed: RangeSet = EMPTY
    in_doubt: RangeSet = EMPTY
    aborted: RangeSet = EMPTY
    filtered: RangeSet = EMPTY
    expired: RangeSet = EMPTY
    summary: Summary | None = None
    blocks: tuple[Block, ...] = ()
    count: int = 0
    bytes: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    acks: int = -1
    copies: tuple[Copy, ...] = ()
    again: Levels = ()
    duplicate_count: int = 0
    latency: tuple[int, ...] = ()
    skewed: int = 0
    unstamped: int = 0
    malformed: int = 0

    @property
    def claimed(self) -> RangeSet:
        """The sequences that have to be downstream."""
        if self.acks == 0:
            return self.accepted - self.failed - self.in_doubt
        return self.acknowledged

    @property
    def known(self) -> RangeSet:
        """Every sequence that was ever handed in: none of these is a surprise downstream."""
        return self.accepted | self.acknowledged | self.failed | self.in_doubt

    @property
    def pending(self) -> RangeSet:
        """Accepted, with an unknown result so far. With acks=0 the result is never known."""
        if self.acks == 0:
            return EMPTY
        return self.accepted - self.acknowledged - self.failed - self.in_doubt - self.aborted

    def merge(self, other: Claim) -> Claim:
        """The union of two reporters' claims of one cell.

        For one sequence the better result counts: acknowledged before aborted before failed before
        in doubt, since a journal replay may doubt what an earlier report has acknowledged."""
        acknowledged = self.acknowledged | other.acknowledged
        aborted = (self.aborted | other.aborted) - acknowledged
        failed = (self.failed | other.failed) - acknowledged - aborted
        return Claim(
            key=self.key,
            accepted=self.accepted | other.accepted,
            acknowledged=acknowledged,
            failed=failed,
            in_doubt=(self.in_doubt | other.in_doubt) - acknowledged - aborted - failed,
            aborted=aborted,
            filtered=self.filtered | other.filtered,
            expired=self.expired | other.expired,
            summary=self._merged_summary(other),
            blocks=merge_blocks(self.blocks, other.blocks),
            count=self.count + other.count,
            bytes=self.bytes + other.bytes,
            min_timestamp=_earliest(self.min_timestamp, other.min_timestamp),
            max_timestamp=max(self.max_timestamp, other.max_timestamp),
            acks=self.acks,
            copies=self.copies + other.copies,
            duplicate_count=self.duplicate_count + other.duplicate_count,
            latency=_merge_latency(self.latency, other.latency),
            skewed=self.skewed + other.skewed,
            unstamped=self.unstamped + other.unstamped,
            malformed=self.malformed + other.malformed,
        )

    @property
    def repeated(self) -> Levels | None:
        """Which sequences are upstream beyond once; None: not known, only how many."""
        return _repeated(self.duplicate_count, self.again, self.copies)

    def numbers(self) -> Summary:
        """The claim in a few numbers, whether it has ranges or not; without a fingerprint
        (:data:`UNHASHED`) if it has."""
        if self.summary is not None:
            return self.summary
        sizes = (self.accepted.size, self.claimed.size, self.failed.size, self.in_doubt.size)
        return Summary(*sizes, UNHASHED)

    def fingerprinted(self) -> int:
        """The sum of the hashes of what was promised, or :data:`UNHASHED`."""
        return fingerprint(self.claimed) if self.summary is None else self.summary.fingerprint

    def _merged_summary(self, other: Claim) -> Summary | None:
        if self.summary is None and other.summary is None:
            return None
        one, two = self.numbers(), other.numbers()
        hashes = _few_hashed(self, one.acknowledged), _few_hashed(other, two.acknowledged)
        return Summary(
            one.accepted + two.accepted,
            one.acknowledged + two.acknowledged,
            one.failed + two.failed,
            one.in_doubt + two.in_doubt,
            _added(*hashes),
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """What a counter saw of a cell. ``count`` counts every copy; offsets are those of the partition
    it was read from. ``copies`` names further copies, bounded: ``duplicate_count`` is exact. A
    group reports only which sequences it processed more than once (``again``), not their offsets.
    ``aborted`` are sequences seen in transactions that were aborted: they are in no other field.
    ``rewritten``: blocks whose contents in the log have changed, as they were counted first.
    ``first_offset`` stays -1 where a part was counted in an earlier log of the partition
    (``detached``). With a ``fingerprint`` (the sum of the hashes of all its sequences, modulo 2^64)
    there are no ranges, since they were more than may be kept."""

    key: CellKey
    count: int = 0
    bytes: int = 0
    ranges: RangeSet = EMPTY
    copies: tuple[Copy, ...] = ()
    again: Levels = ()
    aborted: RangeSet = EMPTY
    fingerprint: int | None = None
    blocks: tuple[Block, ...] = ()
    latency: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    min_timestamp: int = -1
    max_timestamp: int = -1
    malformed: int = 0
    skewed: int = 0
    rewritten: tuple[Block, ...] = ()

    @property
    def detached(self) -> bool:
        """Whether some of it was counted in an earlier log of the partition, of a topic that was
        deleted and made again: so the log does not show any more which records of the cell there
        were."""
        return self.first_offset < 0 and bool(self.count or self.aborted)

    @property
    def duplicate_count(self) -> int:
        """How many records beyond the first of each sequence: Σ count − |union|."""
        if not self.key.stamped or self.fingerprint is not None:
            return 0
        return self.count - self.ranges.size

    @property
    def repeated(self) -> Levels | None:
        """Which sequences were seen beyond once; None: not known, only how many."""
        return _repeated(self.duplicate_count, self.again, self.copies)

    def merge(self, other: Observation) -> Observation:
        """Both together: the same cell counted in two partitions, or in two stretches of one."""
        return Observation(
            key=self.key,
            count=self.count + other.count,
            bytes=self.bytes + other.bytes,
            ranges=self.ranges | other.ranges,
            copies=self.copies + other.copies,
            again=self._merged_again(other),
            aborted=self.aborted | other.aborted,
            fingerprint=self._merged_fingerprint(other),
            blocks=merge_blocks(self.blocks, other.blocks),
            rewritten=self.rewritten + other.rewritten,
            latency=_merge_latency(self.latency, other.latency),
            first_offset=_earliest(self.first_offset, other.first_offset),
            last_offset=max(self.last_offset, other.last_offset),
            min_timestamp=_earliest(self.min_timestamp, other.min_timestamp),
            max_timestamp=max(self.max_timestamp, other.max_timestamp),
            malformed=self.malformed + other.malformed,
            skewed=self.skewed + other.skewed,
        )

    def as_claim(self) -> Claim:
        """What a cluster has, its mirror has to bring: the observation upstream is the claim."""
        return Claim(
            key=self.key,
            accepted=self.ranges,
            acknowledged=self.ranges,
            aborted=self.aborted,
            summary=self._summary(),
            blocks=self.blocks,
            count=self.count,
            bytes=self.bytes,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            copies=self.copies,
            again=self.again,
            duplicate_count=self.duplicate_count,
        )

    def fingerprinted(self) -> int:
        """The sum of the hashes of its sequences, whether it has ranges or not."""
        return fingerprint(self.ranges) if self.fingerprint is None else self.fingerprint

    def _merged_again(self, other: Observation) -> Levels:
        one, two = self.repeated, other.repeated
        if one is None or two is None:
            return ()
        return together((self.ranges, *one), (other.ranges, *two))[1:]

    def _merged_fingerprint(self, other: Observation) -> int | None:
        if self.fingerprint is None and other.fingerprint is None:
            return None
        hashes = _few_hashed(self, self.ranges.size), _few_hashed(other, other.ranges.size)
        return _added(*hashes)

    def _summary(self) -> Summary | None:
        if self.fingerprint is None:
            return None
        return Summary(self.count, self.count, 0, 0, self.fingerprint)


@dataclass(frozen=True, slots=True)
class CellFacts:
    """Both sides of one cell on one edge. ``observed_count`` replaces the observation's count for
    records without a stamp on a fan-in edge, where only a share of what is seen is this edge's.
    ``explained`` are sequences whose absence has a stated reason, besides what the two sides say.
    ``in_flight``: nothing shows yet that the mirror, the group or the load has passed them.
    ``unreported``: the members of a group that may have processed some without a report.
    ``excused``: how many more are absent for a stated reason, where that does not name them."""

    key: CellKey
    claim: Claim | None = None
    observation: Observation | None = None
    explained: tuple[Explanation, ...] = ()
    observed_count: int | None = None
    in_flight: bool = False
    unreported: frozenset[str] = frozenset()
    excused: int = 0


def _few_hashed(side: Claim | Observation, size: int) -> int:
    """The fingerprint of a side with ranges of so many sequences."""
    return UNHASHED if size > MOST_HASHED and _has_ranges(side) else side.fingerprinted()


def _has_ranges(side: Claim | Observation) -> bool:
    nameless = side.summary if isinstance(side, Claim) else side.fingerprint
    return nameless is None


def _added(one: int, other: int) -> int:
    return UNHASHED if UNHASHED in (one, other) else one + other & MASK


def merge_observations(observations: Iterable[Observation]) -> dict[CellKey, Observation]:
    """One observation a cell, whichever partitions it was counted in."""
    merged: dict[CellKey, Observation] = {}
    for observation in observations:
        known = merged.get(observation.key)
        merged[observation.key] = known.merge(observation) if known else observation
    return merged


def merge_claims(claims: Iterable[Claim]) -> dict[CellKey, Claim]:
    """One claim a cell: the union across its reporters."""
    merged: dict[CellKey, Claim] = {}
    for claim in claims:
        known = merged.get(claim.key)
        merged[claim.key] = known.merge(claim) if known else claim
    return merged


def _repeated(count: int, again: Levels, copies: tuple[Copy, ...]) -> Levels | None:
    found: Levels | None = None
    if copies_in(again) == count:
        found = again
    elif len(copies) == count:
        found = levels_of(copy.sequence for copy in copies)
    return found if found is None or len(found) <= MAX_LEVELS else None


def _merge_latency(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    both = sketches.merged((sketches.from_store(one), sketches.from_store(other)))
    return tuple(sketches.to_list(both))


def _earliest(one: int, other: int) -> int:
    return other if one < 0 else one if other < 0 else min(one, other)
