"""The leader epochs of a log, read from its batches: each batch carries its own.

The checkpoint has them too, and epochs in which nothing was written, which no batch shows. So this
is for what the checkpoint cannot have: records behind the recovery point, or a checkpoint that is
missing or damaged. Without its epochs a leader would answer every follower that it knows none of
theirs, and the followers would cut to their high watermarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallymark.log.segments.segment import Segment
from tallymark.protocol.records.batch import BatchHeader


def noting_epochs(
    batches: Iterable[tuple[int, BatchHeader]], epochs: list[tuple[int, int]]
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the (position, header) of ``batches``, and collect the (epoch, offset) where the leader
    epoch changes; ``epochs`` has those of the batches before."""
    latest = epochs[-1][0] if epochs else -1
    for position, header in batches:
        if header.partition_leader_epoch > latest:
            latest = header.partition_leader_epoch
            epochs.append((latest, header.base_offset))
        yield position, header


def epochs_in(segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """The (epoch, offset) of where the leader epoch changes in these segments. A segment is read
    as a whole only if it ends in another epoch than it begins in: epochs only rise."""
    epochs: list[tuple[int, int]] = []
    for segment in segments:
        first = next(iter(segment.headers()), None)
        if first is None:
            continue
        whole = first[1].partition_leader_epoch != _last_epoch(segment)
        for _ in noting_epochs(segment.headers() if whole else (first,), epochs):
            pass
    return epochs


def _last_epoch(segment: Segment) -> int | None:
    """The epoch of the last batch, found by the last entry of the index; None where that is of no
    use."""
    offsets = segment.indexes.offsets
    position = offsets.entry(-1)[1] if len(offsets) else 0
    last: int | None = None
    for _, header in segment.headers(position):
        last = header.partition_leader_epoch
    return last
