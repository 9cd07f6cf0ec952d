"""What has changed among the replicas of a cluster from one look to the next: which broker left the
ISR of which partitions or came back, and since when a partition lacks a replica. Pure.

Metadata says who is in sync, not why. What can be seen from here is whether the broker was there;
the leader's log says the rest ("isr changed").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.shapes import IsrChange, PartitionState, TopicState, WhichWay

MOST: Final = 100
"""Changes that are kept of a cluster."""
NAMED: Final = 5
"""Partitions of a change that are named."""
GONE: Final = "its broker, or the disk of it, was not there"
BEHIND: Final = "its broker was there: it did not keep up"
BACK: Final = "it has caught up"
MOVED: Final = "the partition was moved to other brokers"


class ReplicaBook:
    """Of one cluster, over all looks of this process."""

    def __init__(self) -> None:
        self.changes: tuple[IsrChange, ...] = ()
        """The newest first."""
        self.short_since: Mapping[TopicPartition, int] = {}
        """Of each partition with a replica out of sync: when that was seen first (ms)."""
        self._known: Mapping[str, TopicState] | None = None
        self._at = 0

    def see(self, topics: Mapping[str, TopicState], brokers: Collection[int], at: int) -> None:
        """A look at ``at`` has found these topics, and these brokers that live."""
        since = {
            (name, one.partition): self.short_since.get((name, one.partition), at)
            for name, topic in topics.items()
            for one in topic.partitions
            if one.under_replicated
        }
        if self._known is not None:
            found = _changes(self._known, topics, brokers)
            new = [
                IsrChange(at, self._at, broker, change, why, len(places), _named(places), led)
                for (broker, change, why), (places, led) in sorted(found.items())
            ]
            self.changes = (*new, *self.changes)[:MOST]
        self._known, self._at, self.short_since = topics, at, since


_Found = dict[tuple[int, WhichWay, str], tuple[list[TopicPartition], int]]


def _changes(
    before: Mapping[str, TopicState], now: Mapping[str, TopicState], brokers: Collection[int]
) -> _Found:
    found: _Found = {}
    for name, old, new in _both(before, now):
        if old.isr == new.isr:
            continue
        for broker in set(old.isr) ^ set(new.isr):
            key = broker, *_change(broker, old, new, brokers)
            places, led = found.get(key, ([], 0))
            places.append((name, new.partition))
            found[key] = places, led + (old.leader == broker)
    return found


def _both(
    before: Mapping[str, TopicState], now: Mapping[str, TopicState]
) -> Iterator[tuple[str, PartitionState, PartitionState]]:
    for name, topic in now.items():
        known = before.get(name)
        if known is None or known is topic:
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            if old.partition == new.partition:
                yield name, old, new


def _change(
    broker: int, old: PartitionState, new: PartitionState, brokers: Collection[int]
) -> tuple[WhichWay, str]:
    if broker in new.isr:
        return "joined", BACK if broker in old.replicas else MOVED
    if broker not in new.replicas:
        return "left", MOVED
    # Brokers were asked for before topics: one that went between the two is offline in these.
    is_there = broker in brokers and broker not in new.offline
    return "left", BEHIND if is_there else GONE


def _named(places: list[TopicPartition]) -> tuple[str, ...]:
    return tuple(f"{topic}-{number}" for topic, number in places[:NAMED])
