"""What brokers have saved before they cut their logs, as far as the store knows: they report each
cut (:mod:`tallymark_audit.collector.replication_incidents`). Which messages these are stands in the
folders (:mod:`.tails`), which only a plan reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.store.counted.incidents import GIVEN_UP, folder_of
from tallymark_audit.store.schema.rows import Row


@dataclass(slots=True)
class Saved:
    """Of one topic of a cluster: the offsets that were cut and saved, by partition; two replicas
    may have saved the same. ``folders``: where, on the machines of their brokers. ``left`` counts
    down what was not assigned to a cell yet."""

    offsets: Mapping[int, RangeSet] = field(default_factory=dict[int, RangeSet])
    folders: tuple[str, ...] = ()
    left: dict[int, int] = field(default_factory=dict[int, int])

    def take(self, partition: int, most: int) -> int:
        """How many of ``most`` messages of the partition may be among what was saved; these are
        not given a second time."""
        count = min(most, self.left.get(partition, 0))
        if count:
            self.left[partition] -= count
        return count


def what_was_saved(events: Iterable[Row], cluster: str, topic: str, since: int) -> Saved:
    """Of a topic. ``events``: what happened to logs (rows of ``incidents``). A cut before ``since``
    (ms, the start of a window) took none of its messages."""
    offsets: dict[int, RangeSet] = {}
    folders: dict[str, None] = {}
    for event in events:
        if (event["kind"], event["cluster"], event["topic"]) != (GIVEN_UP, cluster, topic):
            continue
        folder = folder_of(event["reason"])
        if folder and event["at"] >= since and event["to_offset"] > event["from_offset"] >= 0:
            cut = RangeSet.single(event["from_offset"], event["to_offset"] - 1)
            offsets[event["partition"]] = offsets.get(event["partition"], EMPTY) | cut
            folders[folder] = None
    sizes = {partition: found.size for partition, found in offsets.items()}
    return Saved(offsets, tuple(folders), sizes)
