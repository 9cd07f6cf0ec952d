"""The cheap pass: which cells hold exactly what they should, by count and digest alone. Pure.

A task sends the ranges of a cell where these are few. Of a cell with more it sends the first and
the last sequence, and count, XOR and sum of a hash of the identities, every copy counted. Where
these three are those of a set of ranges that is known otherwise, the cell holds that set, each
message once; loss and duplication that cancel in the count do not cancel in the hashes. Of all
other cells the exact ranges have to be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.sides import Claim
from tallymark_spark_jobs.counting.digests import MOST_SEQUENCES, digest_of_ranges
from tallymark_spark_jobs.counting.intervals import Range
from tallymark_spark_jobs.counting.tally import CellTally, merged
from tallymark_spark_jobs.reconcile.shapes.tallies import ClusterTopic, Seen

CellAt = tuple[str, CellKey]
"""A cell, and the cluster in which it was counted."""


class Stretch(NamedTuple):
    """Offsets ``first`` to ``last`` of a partition that hold all records of a cell there."""

    cluster: str
    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Resolved:
    """``seen``: every cell whose sequences are known. ``unresolved``: the others, with where their
    records lie."""

    seen: tuple[Seen, ...]
    unresolved: Mapping[CellAt, tuple[Stretch, ...]]


def shortened(tally: CellTally, most: int) -> CellTally:
    """The tally with its first and last sequence in place of more than ``most`` ranges; the same
    tally if there are no more."""
    if len(tally.ranges) + sum(map(len, tally.again)) <= most:
        return tally
    bounds = (tally.ranges[0][0], tally.ranges[-1][1])
    return replace(tally, ranges=(bounds,), again=(), copies=())


def resolve(
    seen: Iterable[Seen],
    claims: Mapping[CellKey, Iterable[Claim]],
    exact: Collection[ClusterTopic] = (),
) -> Resolved:
    """What is known of each cell. ``claims``: of all clusters. ``exact``: places of which the
    offsets of single sequences matter, since a mirror could not copy some: no digest shows them."""
    by_cell: dict[CellAt, list[Seen]] = {}
    for one in seen:
        by_cell.setdefault((one.cluster, one.tally.key), []).append(one)
    known = {place: some for place, some in by_cell.items() if all(one.named for one in some)}
    found = [one for some in known.values() for one in some]
    if len(known) == len(by_cell):
        return Resolved(tuple(found), {})
    sets = _Sets(known, claims)
    unresolved: dict[CellAt, tuple[Stretch, ...]] = {}
    for place, some in by_cell.items():
        if place in known:
            continue
        cluster, key = place
        ranges = None if (cluster, key.topic) in exact else sets.held_by(key, some)
        if ranges is None:
            unresolved[place] = tuple(stretches_of(some))
        else:
            found += _with_ranges(some, ranges)
    return Resolved(tuple(found), unresolved)


class _Sets:
    """Sets of sequences that a cell may hold, by sender."""

    def __init__(
        self, known: Mapping[CellAt, Sequence[Seen]], claims: Mapping[CellKey, Iterable[Claim]]
    ) -> None:
        self._sets: dict[CellKey, set[tuple[Range, ...]]] = {}
        self._digests: dict[tuple[CellKey, tuple[Range, ...]], tuple[int, int, int]] = {}
        for key, some in claims.items():
            for claim in some:
                for ranges in (claim.claimed, claim.accepted):
                    self._add(key, ranges.ranges)
        for (_, key), seen in known.items():
            for tally in merged([one.tally for one in seen]):
                self._add(key, tally.ranges)

    def held_by(self, key: CellKey, some: Sequence[Seen]) -> tuple[Range, ...] | None:
        """The ranges that the cell holds, each sequence once; None: none of those known."""
        parts = [one.tally for one in some]
        if any(part.aborted for part in parts):
            return None
        count = sum(part.messages for part in parts)
        folded, total = 0, 0
        for part in parts:
            folded ^= part.digest_xor
            total += part.digest_sum
        wanted = (count, folded, total & ((1 << 64) - 1))
        first = min(part.ranges[0][0] for part in parts)
        last = max(part.ranges[-1][1] for part in parts)
        alike: list[tuple[Range, ...]] = [((first, last),), *self._sets.get(_nameless(key), ())]
        for ranges in alike:
            size = sum(high - low + 1 for low, high in ranges)
            if size == count <= MOST_SEQUENCES and self._digest(key, ranges) == wanted:
                return ranges
        return None

    def _add(self, key: CellKey, ranges: tuple[Range, ...]) -> None:
        if ranges:
            self._sets.setdefault(_nameless(key), set()).add(ranges)

    def _digest(self, key: CellKey, ranges: tuple[Range, ...]) -> tuple[int, int, int]:
        """Of both ends of a hop it is the same, and is made once."""
        at = (_nameless(key), ranges)
        if at not in self._digests:
            self._digests[at] = digest_of_ranges(key, ranges)
        return self._digests[at]


def _nameless(key: CellKey) -> CellKey:
    """The cell by whatever name a mirror gives its topic."""
    return key._replace(topic="")


def _with_ranges(some: Sequence[Seen], ranges: tuple[Range, ...]) -> Iterator[Seen]:
    """The tallies of a cell that together hold ``ranges``. In which of them a sequence is, is not
    known: the first has them all, and the others only show where records of the cell are."""
    for at, one in enumerate(some):
        mine = replace(one.tally, ranges=() if at else ranges, extra=0, again=(), copies=())
        yield Seen(one.cluster, mine, named=False)


def stretches_of(some: Iterable[Seen]) -> Iterator[Stretch]:
    """Where the records of these tallies lie."""
    for cluster, tally, _ in some:
        for partition in range(tally.first_partition, tally.last_partition + 1):
            yield Stretch(
                cluster, tally.key.topic, partition, tally.first_offset, tally.last_offset
            )


def joined(stretches: Iterable[Stretch], gap: int = 0) -> list[Stretch]:
    """The same offsets, each once, in their order; with what lies between two stretches where that
    is ``gap`` offsets or less."""
    found: list[Stretch] = []
    for one in sorted(stretches):
        last = found[-1] if found else None
        if last is not None and last[:3] == one[:3] and one.first <= last.last + 1 + gap:
            found[-1] = last._replace(last=max(last.last, one.last))
        else:
            found.append(one)
    return found
