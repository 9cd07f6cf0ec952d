"""How far a mirror or a group has come, and what follows for cells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tallymark_audit.judge.damage import Damaged
from tallymark_audit.judge.states import ReporterFacts
from tallymark_audit.model.cells import ABORTED, EXPIRED, FOREVER, CellKey, Edge, Explanation
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Observation

GAP_MEANS: Final = {
    "retention": EXPIRED,
    "deleted": EXPIRED,
    "recreated": EXPIRED,
    "aborted": ABORTED,
}
"""What the reason of a mirror's gap means for the messages in it."""


STOPPED: Final = "damaged"
"""The reason of a mirror's gap where it has stopped: a batch cannot be read. It excuses nothing,
and ends when the mirror has come further."""


def mirror_of(edge: Edge) -> str:
    """The name of an edge's mirror as a reporter."""
    return f"mirror-{edge.name}"


class Part(NamedTuple):
    """What one partition of a log holds of a cell: ``seen`` has its offsets and sequences."""

    partition: int
    seen: Observation


class Stop(NamedTuple):
    """At ``at`` (ms) a mirror reported that it cannot read on at ``offset`` of a partition."""

    partition: int
    offset: int
    at: int


Parts = Mapping[CellKey, Iterable[Part]]


class Passed(NamedTuple):
    """Everything below ``offset`` of a partition was passed by ``at`` (ms); of the log that the
    partition had before its topic was made again, nothing more is brought after ``let_go`` (ms)."""

    offset: int
    at: int = 0
    let_go: int = 0


def standing_still(
    edge: Edge, topic: str, stops: Iterable[Stop], passed: Mapping[int, Passed], began: int = 0
) -> list[Damaged]:
    """Where the edge's mirror stands still, from all ``stops`` that it ever reported: without those
    that it has ``passed`` since, and those in a log that the topic had before it was made again,
    at ``began`` (ms)."""
    why = f"a batch cannot be read (its CRC), and {mirror_of(edge)} waits there"
    return [
        Damaged(edge.upstream, topic, stop.partition, stop.offset, why)
        for stop in stops
        if stop.at >= began
        and (stop.partition not in passed or passed[stop.partition].offset <= stop.offset)
    ]


class Word(NamedTuple):
    """The newest report of a mirror or of a group's member on a partition, of ``at`` (ms): all that
    it did before ``offset`` is reported."""

    reporter: str
    partition: int
    offset: int
    at: int


class Cut(NamedTuple):
    """The log of a partition was cut, and went on at ``offset``; its collector saw that at ``at``
    (ms)."""

    partition: int
    offset: int
    at: int


Owed = tuple[int, str]
Owing = Mapping[int, Iterable[Owed]]
"""By partition, the members that may have processed messages from an offset on without a report."""


class GapOf(NamedTuple):
    """Upstream offsets ``first..last`` of a partition that a mirror could not copy, and what that
    means for the messages there (a reason of an :class:`~tallymark_audit.model.cells.Explanation`).
    """

    partition: int
    first: int
    last: int
    reason: str


def in_flight(
    parts: Parts, passed: Mapping[int, Passed], counted_through: int
) -> frozenset[CellKey]:
    """The cells with records that the mirror is not known to have passed, or has passed only after
    the counter downstream last looked (``counted_through``, ms)."""
    nowhere = Passed(0)
    return frozenset(
        key
        for key, some in parts.items()
        for partition, seen in some
        if (at := passed.get(partition, nowhere)).offset <= seen.last_offset
        or at.at >= counted_through
        or (seen.detached and at.let_go >= counted_through)
    )


def since_cuts(words: Iterable[Word], cuts: Sequence[Cut]) -> list[Word]:
    """What the words say of the logs that there are now. A report from before a cut is not about
    the messages that have taken the place of those that were cut off."""
    found: list[Word] = []
    for word in words:
        later = (one for one in cuts if one.partition == word.partition and one.at >= word.at)
        lowest = min((one.offset for one in later), default=word.offset)
        found.append(word._replace(offset=min(word.offset, lowest)))
    return found


def newest(words: Iterable[Word]) -> dict[int, Passed]:
    """By partition, what the reporter that moved in it last has passed: not the furthest, which may
    have left the partition before its log was cut."""
    found: dict[int, Passed] = {}
    for word in words:
        known = found.get(word.partition)
        if known is None or word.at >= known.at:
            found[word.partition] = Passed(word.offset, word.at)
    return found


def with_deletions(
    passed: Mapping[int, Passed],
    deleted: Mapping[int, int],
    detached: Mapping[int, int],
    patience_ms: int,
) -> dict[int, Passed]:
    """What was ``passed``, with the partitions that were ``deleted`` and those that became another
    log (``detached``), each with its time (ms): a mirror or a group is done with a log that is
    gone, but what it had fetched of it, it may still bring for ``patience_ms``."""
    found = dict(passed)
    for partition, at in deleted.items():
        found[partition] = Passed(FOREVER, at + patience_ms)
    for partition, at in detached.items():
        known = found.get(partition, Passed(0))
        found[partition] = known._replace(let_go=at + patience_ms)
    return found


def deletion_gaps(deleted: Iterable[int]) -> list[GapOf]:
    """What was not passed on before its partition was deleted: it was promised, and is gone."""
    return [GapOf(partition, 0, FOREVER, EXPIRED) for partition in deleted]


def owing(words: Iterable[Word], members: Iterable[ReporterFacts]) -> dict[int, list[Owed]]:
    """What the live members of a group may not have reported. Where another member has moved in a
    partition, and this member reported after that, it had given up the partition, and had reported
    its work there."""
    known = {one.reporter: one for one in members}
    by_partition: dict[int, list[Word]] = {}
    for word in (one for one in words if one.reporter in known):
        by_partition.setdefault(word.partition, []).append(word)
    found: dict[int, list[Owed]] = {}
    for partition, mine in by_partition.items():
        for word in mine:
            member = known[word.reporter]
            others = (one.at for one in mine if one.reporter != word.reporter)
            gave_up = any(word.at < at < member.last_heard for at in others)
            if not member.ended and not gave_up:
                found.setdefault(partition, []).append((word.offset, word.reporter))
    return found


def unreported(parts: Parts, owing: Owing) -> dict[CellKey, frozenset[str]]:
    """By cell, the members that may have processed records of it without a report."""
    found: dict[CellKey, frozenset[str]] = {}
    for key, some in parts.items():
        who = frozenset(
            member
            for partition, seen in some
            for offset, member in owing.get(partition, ())
            if offset <= seen.last_offset
        )
        if who:
            found[key] = who
    return found


def reasons_of(parts: Parts, gaps: Iterable[GapOf]) -> dict[CellKey, tuple[Explanation, ...]]:
    """Which sequences of which cells lie in gaps, as far as that is certain: where a part of a cell
    lies in a gap as a whole, or has its sequences one by one at its offsets."""
    by_partition: dict[int, list[GapOf]] = {}
    for gap in gaps:
        if (
            gap.last < gap.first
        ):  # older mirrors reported this of a topic that was made again: it has no offset
            continue
        by_partition.setdefault(gap.partition, []).append(gap)
    found: dict[CellKey, dict[str, RangeSet]] = {}
    for key, some in parts.items():
        for partition, seen in some:
            for gap in by_partition.get(partition, ()):
                here = _within(seen.ranges, seen.first_offset, seen.last_offset, seen.count, gap)
                if here:
                    reasons = found.setdefault(key, {})
                    reasons[gap.reason] = reasons.get(gap.reason, EMPTY) | here
    return {
        key: tuple(Explanation(reason, ranges) for reason, ranges in sorted(reasons.items()))
        for key, reasons in found.items()
    }


def _within(ranges: RangeSet, first: int, last: int, count: int, gap: GapOf) -> RangeSet:
    """The sequences of a part, at offsets ``first..last``, that lie in the gap for certain."""
    if not ranges or first < 0 or last < gap.first or gap.last < first:
        return EMPTY
    if gap.first <= first and last <= gap.last:
        return ranges
    one_by_one = len(ranges.ranges) == 1 and count == ranges.size == last - first + 1
    if not one_by_one or gap.reason != EXPIRED:  # an excuse needs more than likelihood
        return EMPTY
    shift = ranges.first - first
    return RangeSet.single(max(first, gap.first) + shift, min(last, gap.last) + shift)
