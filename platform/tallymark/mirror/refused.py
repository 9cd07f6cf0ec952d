"""Partitions of which the target refuses a message: each waits by itself, and is tried again. Pure;
times are monotonic seconds.

::

    held     it is not read and nothing of it is sent, for 10 s, then 20 s ... up to five minutes
    tried    it is read again from the refused offset on. Each record is sent alone, so that what
             was refused together with a record that is too large is not sent again and again
    (none)   all that was refused at first has arrived

The mirror's other partitions go on meanwhile. Offsets behind the refused one are not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallymark.mirror.corruption import StoppedPartition
from tallymark.mirror.progress import Partition

FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 300.0


@dataclass(slots=True)
class _Refusal:
    stopped: StoppedPartition
    end: int
    """Of the offsets that were refused together."""
    rounds: int
    """How often the same offset was refused."""
    retry_at: float | None
    """None: it is being tried."""


class RefusedPartitions:
    """See the module's text. For the mirror's thread; the connector's threads call :meth:`held` and
    :meth:`released`, so what is iterated over is copied first."""

    def __init__(self) -> None:
        self._refusals: dict[Partition, _Refusal] = {}

    def hold(self, partition: Partition, offset: int, end: int, why: str, now: float) -> float:
        """The target refuses offsets from ``offset`` to before ``end``. Returns for how many
        seconds the partition waits."""
        before = self._refusals.get(partition)
        again = before is not None and before.stopped.offset == offset
        rounds = before.rounds + 1 if before is not None and again else 0
        wait = min(FIRST_SECONDS * (1 << min(rounds, 20)), LONGEST_SECONDS)
        last = max(end, before.end) if before is not None else end
        stopped = StoppedPartition(*partition, offset, why)
        self._refusals[partition] = _Refusal(stopped, last, rounds, now + wait)
        return wait

    def held(self, partition: Partition) -> StoppedPartition | None:
        """Why the partition is not to be read now; None: it may be."""
        found = self._refusals.get(partition)
        return None if found is None or found.retry_at is None else found.stopped

    def is_tried(self, partition: Partition, offset: int) -> bool:
        """Whether the record at ``offset`` is to be sent alone."""
        found = self._refusals.get(partition)
        return found is not None and offset < found.end

    def due(self, now: float) -> list[Partition]:
        """The partitions that have waited long enough; they are tried from now on."""
        found = [
            partition
            for partition, one in list(self._refusals.items())
            if one.retry_at is not None and one.retry_at <= now
        ]
        for partition in found:
            self._refusals[partition].retry_at = None
        return found

    def arrived(self, partition: Partition, end: int) -> None:
        """The target has taken everything before ``end``."""
        found = self._refusals.get(partition)
        if found is not None and end >= found.end:
            del self._refusals[partition]

    def released(self) -> None:
        """All partitions were given up: those that come back are read from where they wait."""
        for one in list(self._refusals.values()):
            one.retry_at = None

    def forget(self, partition: Partition) -> None:
        """Its topic was created again."""
        self._refusals.pop(partition, None)

    def stopped(self) -> dict[Partition, StoppedPartition]:
        """Those that are held or tried: nothing behind their offset was copied."""
        return {partition: one.stopped for partition, one in list(self._refusals.items())}
