"""Which offsets of a topic are gone, as far as the store knows: from what happened to its logs, and
from where they begin by now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.store.schema.rows import Row


@dataclass(frozen=True, slots=True)
class LogStarts:
    """Where the logs of a topic begin: by partition the first offset that is still there, as it was
    read at ``at`` (ms; 0: never)."""

    starts: Mapping[int, int] = field(default_factory=dict[int, int])
    at: int = 0


LogStartsOf: TypeAlias = Callable[[str, str], LogStarts]
"""Of a cluster and a topic."""
CUT, DELETED, MADE_ANEW = "truncated", "expired", "recreated"
"""Kinds of log events."""


@dataclass
class Gone:
    """Of one topic of a cluster, by partition: all offsets below ``starts`` are gone, and those
    that were ``cut`` off. ``anew``: partitions of which no offset of before means anything."""

    starts: dict[int, int] = field(default_factory=dict[int, int])
    cut: dict[int, RangeSet] = field(default_factory=dict[int, RangeSet])
    anew: set[int] = field(default_factory=set[int])

    def of(self, partition: int, first: int, last: int) -> RangeSet:
        """Which of these offsets are gone (last included)."""
        asked = RangeSet.single(first, last)
        if partition in self.anew:
            return asked
        start = self.starts.get(partition, 0)
        below = RangeSet.single(0, start - 1) if start > 0 else EMPTY
        return asked & (below | self.cut.get(partition, EMPTY))


def what_is_gone(
    events: Iterable[Row], cluster: str, topic: str, since: int, log_starts: Mapping[int, int]
) -> Gone:
    """Of a topic. ``events``: what happened to logs (rows of ``incidents``). What was cut off
    before ``since`` (ms) does not count: the offsets that are asked for are known since then.
    ``log_starts``: where its logs begin by now, by partition."""
    found = Gone()
    mine = [one for one in events if one["cluster"] == cluster and one["topic"] == topic]
    for one in sorted(mine, key=lambda row: (row["at"], row["id"])):
        partition, first, end = one["partition"], one["from_offset"], one["to_offset"]
        if one["kind"] == DELETED:
            found.starts[partition] = max(found.starts.get(partition, 0), end)
        elif one["kind"] == MADE_ANEW:
            found.starts.pop(partition, None)
            found.cut.pop(partition, None)
            if one["at"] >= since:
                found.anew.add(partition)
        elif one["kind"] == CUT and one["at"] >= since and end > first >= 0:
            lost = RangeSet.single(first, end - 1)
            found.cut[partition] = found.cut.get(partition, EMPTY) | lost
    for partition, start in log_starts.items():
        found.starts[partition] = max(found.starts.get(partition, 0), start)
    return found
