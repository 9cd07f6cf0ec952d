"""Wait for reports before runs count as unreported.

Old logs (a new store, a collector that did not run) hold many runs whose reports are in the audit
topic and are not read yet. A partition that opens many cells of such runs waits until that topic is
read, for a limited time: then it is counted in any case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.store.counted.positions import Position

LONGEST_MS: Final = 600_000
REST_MS: Final = 3_600_000
"""A partition that has waited for so long does not wait again before this time."""


class Spending(Protocol):
    """Whether a partition has spent much of what it may open."""

    def is_tight(self, place: TopicPartition, now: int) -> bool: ...


class PartitionLedger(Protocol):
    """The part of a ledger that is used."""

    @property
    def positions(self) -> Mapping[TopicPartition, Position]: ...
    @property
    def opener(self) -> Spending: ...


@dataclass(slots=True)
class Patience:
    """Which partitions wait, and since when (ms)."""

    _since: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def without_waiting(
        self, places: Sequence[TopicPartition], ledger: PartitionLedger, now: int
    ) -> list[TopicPartition]:
        """The ``places`` that are to be read at ``now`` (ms)."""
        behind = any(
            at.topic == AUDIT_TOPIC and at.next_offset < at.high_watermark
            for at in ledger.positions.values()
        )
        if not behind:
            self._since.clear()
            return list(places)
        return [place for place in places if not self._waits(place, ledger, now)]

    def _waits(self, place: TopicPartition, ledger: PartitionLedger, now: int) -> bool:
        if place[0] == AUDIT_TOPIC or not ledger.opener.is_tight(place, now):
            return False
        since = self._since.setdefault(place, now)
        if now - since >= REST_MS:
            self._since[place] = since = now
        return now - since < LONGEST_MS
