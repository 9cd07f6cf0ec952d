"""How far a mirror is behind, per partition of its source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tallymark.mirror.corruption import StoppedPartition
from tallymark.mirror.progress import UNKNOWN, CopyProgress, Partition


class PartitionLag(NamedTuple):
    """``next_offset`` is the offset where the mirror would begin after a kill now, ``end`` the end
    of the log when it was last read. ``size`` (bytes) is an estimate: the number of records times
    the average size of those copied so far, None before there were any; ``seconds`` the age of the
    oldest record that was read and has not arrived, 0 when nothing is behind, None when none of
    them was read yet."""

    topic: str
    partition: int
    next_offset: int
    end: int
    records: int
    size: int | None
    seconds: float | None


@dataclass(slots=True)
class Copied:
    """What has arrived of one partition."""

    records: int = 0
    size: int = 0

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.size += size


@dataclass(frozen=True, slots=True)
class MirrorState:
    """A mirror at one moment; counts are since its start."""

    name: str
    copied: int = 0
    copied_bytes: int = 0
    whole: int = 0
    """Of the copied records, those in batches that were copied whole."""
    returned: int = 0
    """Records that were left out because they had come from the target."""
    gaps: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ranges of offsets that were not copied, by reason."""
    open_batches: int = 0
    lags: tuple[PartitionLag, ...] = ()
    stopped: tuple[StoppedPartition, ...] = ()
    """Partitions that cannot be read on, or of which the target refuses a message."""

    @property
    def lag(self) -> int:
        """Records, in all partitions of this process."""
        return sum(one.records for one in self.lags)

    @property
    def seconds(self) -> float:
        """The largest of all partitions."""
        return max((one.seconds or 0.0 for one in self.lags), default=0.0)


def lags_of(
    owned: Iterable[Partition],
    progress: CopyProgress,
    ends: Mapping[Partition, int],
    waiting: Mapping[Partition, int],
    copied: Mapping[Partition, Copied],
    now_ms: int,
) -> tuple[PartitionLag, ...]:
    """``waiting`` has the timestamp (ms) of the oldest record that was read and not sent."""
    found: list[PartitionLag] = []
    for partition in sorted(owned):
        copy = progress.get(partition)
        at = UNKNOWN if copy is None else copy.to_store
        end = ends.get(partition, UNKNOWN)
        records = max(0, end - max(at, 0))
        done = copied.get(partition)
        size = records * done.size // done.records if done and done.records else None
        oldest = None if copy is None else copy.oldest
        times = [time for time in (oldest, waiting.get(partition)) if time is not None]
        seconds = max(0.0, (now_ms - min(times)) / 1000) if times else None
        found.append(
            PartitionLag(
                *partition,
                next_offset=at,
                end=end,
                records=records,
                size=size if records else 0,
                seconds=seconds if records else 0.0,
            )
        )
    return tuple(found)
