"""Which partitions a cluster has lost: topics that were deleted, or came back smaller. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from tallymark_audit.store.counts import Place

PATIENCE_MS: Final = 5_000
"""A partition is called deleted when the cluster has not named it for so long: a broker that has
just come up may not know all topics yet."""


@dataclass(slots=True)
class Vanishing:
    """Follows what the cluster names; times in ms. ``counted``: the partitions that there were, and
    are not deleted; ``deleted``: those that are."""

    counted: set[Place] = field(default_factory=set[Place])
    deleted: set[Place] = field(default_factory=set[Place])
    _lacking: dict[Place, int] = field(default_factory=dict[Place, int])

    def look(self, there: Collection[Place], now: int) -> tuple[list[Place], list[Place]]:
        """What has been deleted, and what is there again, now that the cluster names ``there``."""
        again = sorted(place for place in self.deleted if place in there)
        self._lacking = {
            place: self._lacking.get(place, now) for place in self.counted if place not in there
        }
        gone = sorted(p for p, since in self._lacking.items() if now - since >= PATIENCE_MS)
        return gone, again

    def noted(self, gone: Iterable[Place], again: Iterable[Place], new: Iterable[Place]) -> None:
        """It is in the store."""
        self.deleted = (self.deleted | set(gone)) - set(again)
        self.counted = (self.counted | set(again) | set(new)) - set(gone)
