"""Offsets that were committed in transactions which are not over (KIP-98, KIP-447).

They come into force at the COMMIT marker of their producer, and are dropped at ABORT. Between two
commits of one partition the offset of their *records* in the log decides, plain or not, and not
that of the marker (KAFKA-14505). So a record that comes into force takes every older pending one of
its partition away, whatever becomes of that transaction::

    3 x=1 of 7    5 x=2 plain     8 COMMIT 7     x=2: 3 is older than 5
    3 x=2 plain   5 x=1 of 7      8 COMMIT 7     x=1
    3 x=1 of 7    5 x no value    8 COMMIT 7     none: deleted after it was written

A log that is compacted keeps the newest record of each partition: it replays to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tallymark.groups.records import CommittedOffset, OffsetKey

NO_PRODUCER = -1

_Place = tuple[str, int]


class Written(NamedTuple):
    """Where a record is: its offset in the log, and the producer in whose transaction it was
    written; -1 outside of one."""

    offset: int
    producer_id: int = NO_PRODUCER


AT_ONCE = Written(0)
"""Outside of a transaction, where nothing is pending."""


class PendingOffset(NamedTuple):
    """A commit that is not in force. ``at``: the offset of its record."""

    at: int
    committed: CommittedOffset | None


@dataclass(slots=True)
class PendingOffsets:
    """Those of the groups that one partition owns."""

    _by_producer: dict[int, dict[OffsetKey, PendingOffset]] = field(
        default_factory=dict[int, dict[OffsetKey, PendingOffset]]
    )
    _groups: dict[str, dict[_Place, set[int]]] = field(
        default_factory=dict[str, dict[_Place, set[int]]]
    )
    """Of each partition the producers that have something pending."""

    def add(self, key: OffsetKey, committed: CommittedOffset | None, written: Written) -> None:
        """A record of a transaction. It replaces an earlier one of the same transaction."""
        producer = written.producer_id
        mine = self._by_producer.setdefault(producer, {})
        mine[key] = PendingOffset(written.offset, committed)
        places = self._groups.setdefault(key.group, {})
        places.setdefault((key.topic, key.partition), set()).add(producer)

    def end(self, producer_id: int) -> dict[OffsetKey, PendingOffset]:
        """The transaction of the producer is over: what was pending in it, which is so no more."""
        ended = self._by_producer.pop(producer_id, {})
        for key in ended:
            self._forget(key, producer_id)
        return ended

    def drop_older(self, key: OffsetKey, at: int) -> None:
        """A record at offset ``at`` is in force for the partition."""
        places = self._groups.get(key.group)
        producers = None if places is None else places.get((key.topic, key.partition))
        for producer in tuple(producers or ()):
            mine = self._by_producer[producer]
            if mine[key].at < at:
                del mine[key]
                if not mine:
                    del self._by_producer[producer]
                self._forget(key, producer)

    def has(self, group: str) -> bool:
        """Whether something of the group is pending."""
        return group in self._groups

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether the group's offset there is not decided."""
        places = self._groups.get(group)
        return places is not None and (topic, partition) in places

    def groups(self) -> Iterator[str]:
        """The groups that have something pending."""
        return iter(tuple(self._groups))

    def of_group(self, group: str) -> list[_Place]:
        """The (topic, partition) of the group that are not decided, sorted."""
        return sorted(self._groups.get(group, ()))

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Everything pending on the topic, of any group."""
        for group, places in self._groups.items():
            for name, partition in places:
                if name == topic:
                    yield OffsetKey(group, name, partition)

    def _forget(self, key: OffsetKey, producer_id: int) -> None:
        places = self._groups[key.group]
        producers = places[key.topic, key.partition]
        producers.discard(producer_id)
        if not producers:
            del places[key.topic, key.partition]
        if not places:
            del self._groups[key.group]
