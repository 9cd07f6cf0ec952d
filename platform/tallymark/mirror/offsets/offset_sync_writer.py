"""Publishes the offset syncs of one mirror in the target, as ranges arrive there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final

from tallymark.clock import now_ms
from tallymark.mirror.copying.pending_range import PendingRange
from tallymark.mirror.offsets.offset_syncs import TOPIC, TOPIC_CONFIGS, OffsetSync, PendingSyncs
from tallymark.mirror.progress import Partition
from tallymark.mirror.target.target import Target

LAST_SYNCS_SECONDS: Final = 2.0


class OffsetSyncWriter:
    """Of the mirror with this name; ``topic_id`` returns the id of a source partition's topic, 32
    hex digits, empty where it is not known."""

    def __init__(self, mirror: str, target: Target, topic_id: Callable[[Partition], str]) -> None:
        self._target = target
        self._topic_id = topic_id
        self._pending = PendingSyncs(mirror)

    def arrived(self, pending: PendingRange) -> None:
        """Note which offsets of the target this range has. It has none that are known if it went
        there in several batches or parts."""
        if pending.target is not None and pending.base_offset >= 0 and len(pending.ranges) == 1:
            first, last = pending.ranges[0]
            sync = OffsetSync(
                first,
                last - first + 1,
                *pending.target,
                pending.base_offset,
                self._topic_id(pending.partition),
            )
            self._pending.copied(pending.partition, sync)

    def publish(self) -> list[Future[None]]:
        """Publish what changed since the last call, in the background. A sync that gets lost does
        no harm: the next one holds more."""
        return [
            self._target.publish_soon(TOPIC, TOPIC_CONFIGS, key, value)
            for key, value in self._pending.take(now_ms())
        ]

    def close(self) -> None:
        """Publish the last ones, and wait a moment for them."""
        wait(self.publish(), LAST_SYNCS_SECONDS)
