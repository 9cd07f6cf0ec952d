"""What the lake lacks, as the offsets that a load has to bring again. Pure.

Nothing is copied into a lake: the load reads exactly these offsets of the cluster once more and
commits their rows, and the hop is judged again. ``tallymark load --repair`` takes a plan's file and
reads it with :func:`reloads_of`; it looks by itself which of them the table has by now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tallymark_audit.model.cells import LAKE
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.items import MissingRun, RepairItem


@dataclass(frozen=True, slots=True)
class Reload:
    """Offsets to load again of one topic of one cluster, by partition; first and last of each range
    are in it."""

    cluster: str
    topic: str
    offsets: dict[int, RangeSet]

    @property
    def count(self) -> int:
        """How many offsets these are."""
        return sum(ranges.size for ranges in self.offsets.values())


def is_reload(item: RepairItem) -> bool:
    """Whether the item is of the hop into the lake, and it is known where each of its messages is:
    within offsets that also hold others, a load would bring those twice."""
    return item.downstream == LAKE and bool(item.missing) and _is_named(item)


def reloads_of(items: Iterable[RepairItem]) -> list[Reload]:
    """What has to be loaded again, of the items of a plan; those of other hops are left out."""
    found: dict[tuple[str, str], dict[int, list[MissingRun]]] = defaultdict(dict)
    for item in filter(is_reload, items):
        places = found[item.upstream, item.key.topic]
        for place in item.places:
            places.setdefault(place.partition, []).append(place)
    return [
        Reload(cluster, topic, {number: _offsets(runs) for number, runs in sorted(places.items())})
        for (cluster, topic), places in sorted(found.items())
    ]


def _offsets(runs: Iterable[MissingRun]) -> RangeSet:
    return RangeSet((run.first_offset, run.last_offset) for run in runs)


def _is_named(item: RepairItem) -> bool:
    """Whether the places hold missing messages one after the other, and no others."""
    runs = [run for run in item.places if run.last_sequence >= run.first_sequence]
    spans = RangeSet((run.first_sequence, run.last_sequence) for run in runs)
    dense = all(
        run.last_offset - run.first_offset == run.last_sequence - run.first_sequence for run in runs
    )
    return dense and bool(runs) and not spans - item.missing
