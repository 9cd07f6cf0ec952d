"""Which partitions a collector counts, if several share one cluster. Pure.

Partitions are shared as a consumer group shares them (:mod:`.group_member`), but correctness does
not depend on the group: a collector takes the next generation of a partition in the store, and
commits of the collector before are refused. A collector whose commit is refused leaves the
partition alone for a while, and takes it again if the group still assigns it: by then one of the
two collectors knows of the rebalance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.edges import AUDIT_TOPIC

RETAKE_MS: Final = 3_000
"""So long a partition is left alone that another collector has taken: a heartbeat, and some."""
LEASE_MS: Final = 5_000
"""A cluster whose collector in charge has been silent for so long has none."""


class Sharing(Protocol):
    """The source of a collector's assignment."""

    @property
    def alone(self) -> bool:
        """Whether no other collector may count: then a refused commit ends this one."""
        ...

    def part_of(self, known: Collection[TopicPartition]) -> Collection[TopicPartition] | None:
        """Those of the ``known`` partitions to count; None: not known yet."""
        ...

    def close(self) -> None:
        """Leave the others all of it."""
        ...


class Alone:
    """Counts all there is; a second one that starts takes everything over."""

    alone = True

    def part_of(self, known: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """All."""
        return known

    def close(self) -> None:
        """Nothing to do: there is no group to leave."""


@dataclass(slots=True)
class Share:
    """What this collector holds of what it should; times in ms."""

    sharing: Sharing
    _barred: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    _lead_barred: int = 0

    def wanted(
        self, known: Collection[TopicPartition], in_charge: bool, leaderless: bool
    ) -> set[TopicPartition]:
        """The partitions to count. Until the group has answered, that is all of them if no other
        collector seems to count, so that the only collector of a cluster need not wait."""
        part = self.sharing.part_of(known)
        if part is None:
            part = known if in_charge or leaderless else ()
        return set(part)

    def changes(
        self, wanted: set[TopicPartition], held: Collection[TopicPartition], now: int
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """What to take, and what to leave to others."""
        self._barred = {p: until for p, until in self._barred.items() if p in wanted}
        take = [p for p in wanted - set(held) if now >= self._barred.get(p, 0)]
        return sorted(take), sorted(set(held) - wanted)

    def refused(self, places: Iterable[TopicPartition], now: int) -> None:
        """Others have taken these."""
        for place in places:
            self._barred[place] = now + RETAKE_MS

    def refused_charge(self, now: int) -> None:
        """Another one has taken the charge of the cluster."""
        self._lead_barred = now + RETAKE_MS

    def takes_charge(
        self,
        known: Collection[TopicPartition],
        held: Collection[TopicPartition],
        wanted: set[TopicPartition],
        now: int,
        nothing: bool = False,
    ) -> bool:
        """Whether this collector should be in charge of the cluster: the one that counts the first
        partition is (the audit topic's), or the one that counts all. ``nothing``: there is nothing
        to count, and no other collector is in charge."""
        if now < self._lead_barred:
            return False
        if nothing:
            return True
        everything = len(wanted) == len(known) and (bool(known) or self.sharing.alone)
        first = min(known, key=_rank, default=None)
        return everything or first in held


def _rank(place: TopicPartition) -> tuple[bool, TopicPartition]:
    return place[0] != AUDIT_TOPIC, place
