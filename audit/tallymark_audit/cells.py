"""What is counted: cells, and what each side says about them.

A *cell* is (tier, cluster, topic, partition, window, server, instance); topic and partition are
the origin's, as the stamp says, so a mirror does not change a cell. Tier and cluster are where it
was counted: they belong to whoever speaks (a claim, an observation), the rest is :class:`CellKey`.

A :class:`Claim` is what somebody says should be there, an :class:`Observation` what a counter saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tallymark_audit.ranges import EMPTY, RangeSet


class CellKey(NamedTuple):
    """One cell, wherever it is counted.

    ``window`` is the start of the window in ms UTC; ``instance`` is 16 hex digits, and ``""``
    together with server ``""`` for records that carry no stamp (``partition`` is then the
    partition they lie in, since nothing tells where they came from).
    """

    topic: str
    partition: int
    window: int
    server: str
    instance: str

    @property
    def stamped(self) -> bool:
        """Whether the records carry who sent them; without it they can only be counted."""
        return bool(self.instance)


class Copy(NamedTuple):
    """A record seen again: where the further copy lies, and which sequence it repeats."""

    partition: int
    offset: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What should be there. Ranges are sequences; count, bytes and timestamps (ms) are of what was
    accepted. ``acks`` is the producer's: with 0 nothing is ever acknowledged, so the claim is what
    was accepted. ``copies`` is how often a claimed sequence stands upstream beyond once, so that a
    mirror is not blamed for what it was given."""

    key: CellKey
    accepted: RangeSet = EMPTY
    acknowledged: RangeSet = EMPTY
    failed: RangeSet = EMPTY
    in_doubt: RangeSet = EMPTY
    count: int = 0
    bytes: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    acks: int = -1
    copies: tuple[Copy, ...] = ()
    duplicate_count: int = 0

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
        """Accepted, and nobody knows yet what became of it. With acks=0 nobody ever will."""
        if self.acks == 0:
            return EMPTY
        return self.accepted - self.acknowledged - self.failed - self.in_doubt

    def merge(self, other: Claim) -> Claim:
        """The union of two reporters' claims of one cell.

        Of one sequence the better news counts: acknowledged over failed over in doubt, since a
        journal replay may doubt what an earlier report has acknowledged."""
        acknowledged = self.acknowledged | other.acknowledged
        failed = (self.failed | other.failed) - acknowledged
        return Claim(
            key=self.key,
            accepted=self.accepted | other.accepted,
            acknowledged=acknowledged,
            failed=failed,
            in_doubt=(self.in_doubt | other.in_doubt) - acknowledged - failed,
            count=self.count + other.count,
            bytes=self.bytes + other.bytes,
            min_timestamp=_earliest(self.min_timestamp, other.min_timestamp),
            max_timestamp=max(self.max_timestamp, other.max_timestamp),
            acks=self.acks,
            copies=self.copies + other.copies,
            duplicate_count=self.duplicate_count + other.duplicate_count,
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """What a counter saw of a cell. ``count`` counts every copy; offsets are those of the partition
    it was read from. ``copies`` names further copies, bounded: ``duplicate_count`` is exact."""

    key: CellKey
    count: int = 0
    bytes: int = 0
    ranges: RangeSet = EMPTY
    copies: tuple[Copy, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    min_timestamp: int = -1
    max_timestamp: int = -1
    malformed: int = 0
    skewed: int = 0

    @property
    def duplicate_count(self) -> int:
        """How many records beyond the first of each sequence: Σ count − |union|."""
        return self.count - self.ranges.size if self.key.stamped else 0

    def merge(self, other: Observation) -> Observation:
        """Both together: the same cell counted in two partitions, or in two stretches of one."""
        return Observation(
            key=self.key,
            count=self.count + other.count,
            bytes=self.bytes + other.bytes,
            ranges=self.ranges | other.ranges,
            copies=self.copies + other.copies,
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
            count=self.count,
            bytes=self.bytes,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            copies=self.copies,
            duplicate_count=self.duplicate_count,
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """One hop that is judged. ``upstream`` is ``producer`` or a cluster, ``downstream`` a cluster;
    ``topics`` is the regular expression of what passes the hop (the declared filter). ``implied``
    marks the producer edge of a mirror's target, which usually has no producers of its own."""

    name: str
    upstream: str
    downstream: str
    kind: Literal["producer", "mirror"]
    topics: str = ".*"
    implied: bool = False


@dataclass(frozen=True, slots=True)
class CellFacts:
    """Both sides of one cell on one edge. ``observed_count`` replaces the observation's count for
    records without a stamp on a fan-in edge, where only a share of what is seen is this edge's.
    ``explained`` are sequences whose absence has a stated reason (expired, filtered, aborted).
    ``in_flight``: nothing shows yet that the mirror has passed them."""

    key: CellKey
    claim: Claim | None = None
    observation: Observation | None = None
    explained: RangeSet = EMPTY
    observed_count: int | None = None
    in_flight: bool = False


def window_of(timestamp: int, window_ms: int) -> int:
    """The start of the window a timestamp (ms) falls in. Every timestamp below zero, which is what
    records without one have, falls in the one window ``-window_ms``: it never mixes with time."""
    return timestamp - timestamp % window_ms if timestamp >= 0 else -window_ms


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


def _earliest(one: int, other: int) -> int:
    return other if one < 0 else one if other < 0 else min(one, other)
