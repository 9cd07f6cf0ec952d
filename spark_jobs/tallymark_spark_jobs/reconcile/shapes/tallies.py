"""What tasks have counted, as the audit's observations. Pure.

A cell has a tally of each task that saw some of it. Those of a cluster are put together in the time
of sorting their ranges, however many there are: merging them one by one took 22 s for a cell with
8,000 gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tallymark_audit.events.claim_book import PartKey
from tallymark_audit.judge.copy_progress import Part
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import Levels
from tallymark_audit.model.sides import Claim, Observation
from tallymark_spark_jobs.counting.tally import CellTally, merged

ByWindow = dict[int, dict[CellKey, Observation]]
ClusterTopic = tuple[str, str]
PartsByWindow = dict[int, dict[CellKey, list[Part]]]


class Seen(NamedTuple):
    """The part of a cell that one task counted, and in which cluster. ``named``: its ranges are
    listed; else the tally has one from the first to the last sequence."""

    cluster: str
    tally: CellTally
    named: bool = True


class ClaimPart(NamedTuple):
    """What one reporter claims of a cell, as of the newest event that a task read."""

    cluster: str
    part: PartKey
    revision: int
    claim: Claim


def observations(seen: Iterable[Seen]) -> dict[ClusterTopic, ByWindow]:
    """The cells as the audit's observations, by cluster and topic, then window."""
    by_cell: dict[tuple[str, CellKey], list[CellTally]] = {}
    for cluster, tally, _ in seen:
        by_cell.setdefault((cluster, tally.key), []).append(tally)
    found: dict[ClusterTopic, ByWindow] = {}
    for (cluster, key), some in by_cell.items():
        by_window = found.setdefault((cluster, key.topic), {})
        by_window.setdefault(key.window, {})[key] = _observation(some)
    return found


def parts(seen: Iterable[Seen]) -> dict[ClusterTopic, PartsByWindow]:
    """The tallies that lie in one partition, as parts of their cells, by cluster and topic, then
    window. Of one that is spread over several no offset is known."""
    found: dict[ClusterTopic, PartsByWindow] = {}
    for cluster, tally, _ in seen:
        if tally.first_partition == tally.last_partition:
            key = tally.key
            by_window = found.setdefault((cluster, key.topic), {})
            part = Part(tally.first_partition, _observation([tally]))
            by_window.setdefault(key.window, {}).setdefault(key, []).append(part)
    return found


def _observation(tallies: Sequence[CellTally]) -> Observation:
    """Of aborted transactions only the sequences are kept, as the collector does."""
    sides = [_of(tally) for tally in merged(tallies)]
    return sides[0] if len(sides) == 1 else sides[0].merge(sides[1])


def _of(tally: CellTally) -> Observation:
    if tally.aborted:
        return Observation(
            tally.key,
            aborted=RangeSet(tally.ranges),
            first_offset=tally.first_offset,
            last_offset=tally.last_offset,
        )
    again: Levels = tuple(RangeSet(level) for level in tally.again)
    return Observation(
        key=tally.key,
        count=tally.messages,
        bytes=tally.bytes,
        ranges=RangeSet(tally.ranges) if tally.ranges else EMPTY,
        copies=tally.copies,
        again=again,
        first_offset=tally.first_offset,
        last_offset=tally.last_offset,
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        malformed=tally.malformed,
        blocks=tally.blocks,
    )
