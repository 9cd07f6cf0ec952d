"""Which partitions a collector counts, where there are several beside one cluster. Pure.

Partitions are shared as a consumer group shares them (:mod:`.group_member`), but nothing depends on
the group being right: who counts a partition has taken the next generation of it in the store, and
a commit of whoever had it before is refused. A collector whose commit is refused leaves the
partition alone for a while, and takes it again if it is still its own by then: one of the two that
each believed it was theirs has heard of the other meanwhile.
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
"""A cluster whose collector in charge has been silent for so long is nobody's."""


class Sharing(Protocol):
    """What tells a collector its part."""

    @property
    def alone(self) -> bool:
        """Whether nobody else may count: being refused is then the end."""
        ...

    def part_of(self, known: Collection[TopicPartition]) -> Collection[TopicPartition] | None:
        """Those of the ``known`` partitions to count; None: nobody can tell yet."""
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
        """There is nobody to tell."""


@dataclass(slots=True)
class Share:
    """What this collector holds of what it should; times in ms."""

    sharing: Sharing
    _barred: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    _lead_barred: int = 0

    def wanted(
        self, known: Collection[TopicPartition], in_charge: bool, leaderless: bool
    ) -> set[TopicPartition]:
        """What to count. Until the group has answered that is everything if nobody else seems to
        count, so that the only collector of a cluster need not wait."""
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
    ) -> bool:
        """Whether it should be in charge of the cluster: who counts its first partition is, that is
        the audit topic's, or who counts all."""
        if now < self._lead_barred:
            return False
        everything = len(wanted) == len(known) and (bool(known) or self.sharing.alone)
        first = min(known, key=_rank, default=None)
        return everything or first in held


def _rank(place: TopicPartition) -> tuple[bool, TopicPartition]:
    return place[0] != AUDIT_TOPIC, place
