"""Loads a log: finds its files, recovers where needed, reads epochs and producers."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.log.config import LogConfig
from tallymark.log.disk.files import Files
from tallymark.log.leader_epochs import LeaderEpochs
from tallymark.log.loading.epochs_of_batches import epochs_in
from tallymark.log.loading.recovery import Recovered, recover
from tallymark.log.loading.segment_files import begin_at, drop_before, find_end, open_segments
from tallymark.log.producers.aborted import AbortedIndexes
from tallymark.log.producers.recovery import load_producers, recover_aborted
from tallymark.log.producers.snapshot import ProducerSnapshots
from tallymark.log.producers.state import ProducerStates
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.segment_list import SegmentList

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """The state that a log begins with. Times are ms, None where there is nothing whose age
    counts."""

    segments: SegmentList
    start_offset: int
    recovery_point: int
    recovered: Recovered | None
    epochs: LeaderEpochs
    snapshots: ProducerSnapshots
    aborted: AbortedIndexes
    producers: ProducerStates
    active_since_ms: int | None
    unflushed_since_ms: int | None


def load_log(
    files: Files,
    directory: str,
    config: LogConfig,
    clean: bool,
    now_ms: int,
    recovery_point: int,
    start_offset: int,
) -> LoadedLog:
    """Open the log in ``directory``; see :meth:`tallymark.log.log.Log.open`. Records below
    ``start_offset`` were deleted."""
    segments, recovered = open_segments(files, directory, config), None
    # A crash may have brought back deleted segments, whole or torn: remove them before they are
    # read.
    segments = drop_before(files, directory, segments, start_offset)
    if not (clean and find_end(segments.active)):
        segments, recovered = recover(segments, recovery_point)
    if segments.active.next_offset < start_offset:
        segments = begin_at(files, directory, config, segments, start_offset)
    end = segments.active.next_offset
    first = max(start_offset, segments.start_offset)
    durable = max(min(recovery_point, end), first) if recovered else end
    snapshots, aborted = ProducerSnapshots(files, directory), AbortedIndexes(files, directory)
    if recovered is not None:
        recover_aborted(snapshots, aborted, segments, recovered.first, recovered.markers)
    producers = load_producers(snapshots, segments, now_ms)
    producers.expire(now_ms, config.producer_id_expiration_ms)
    loaded = LoadedLog(
        segments,
        first,
        durable,
        recovered,
        _load_epochs(files, directory, segments, first, recovered),
        snapshots,
        aborted,
        producers,
        age_of(segments.active, now_ms),
        now_ms if durable < end else None,
    )
    for segment in segments:
        segment.close()  # thousands of logs must not hold descriptors before they are used
    return loaded


def _load_epochs(
    files: Files, directory: str, segments: SegmentList, first: int, recovered: Recovered | None
) -> LeaderEpochs:
    """The epochs of the checkpoint, up to what recovery has verified, and from there on those of
    the batches: an epoch may not be in the file yet, or be there still though its records were cut
    and others have their offsets. Without a checkpoint all are read from the batches."""
    epochs = LeaderEpochs(files, directory)
    if not epochs.entries:
        trusted = [each for each in segments if not recovered or each.base_offset < recovered.first]
        _note(epochs, epochs_in(trusted))
        if epochs.entries:
            log.warning("%s has no leader epochs: read from the batches", directory)
    # After a clean stop an epoch in which nothing was written yet is still the current one.
    end = segments.active.next_offset
    epochs.cut_end(min(recovered.first, end) if recovered else end + 1)
    _note(epochs, recovered.epochs if recovered else ())
    epochs.cut_start(first)
    return epochs


def _note(epochs: LeaderEpochs, found: Iterable[tuple[int, int]]) -> None:
    for epoch, offset in found:
        if epoch > epochs.latest:
            epochs.note(epoch, offset)


def age_of(active: Segment, now_ms: int) -> int | None:
    """When the first record of the active segment was written. After a restart the timestamp of its
    first batch is the only clock. A segment of old data is rolled once for that; this does no harm.
    """
    for place in active.places_from(active.base_offset):
        return min(place.max_timestamp, now_ms) if place.max_timestamp >= 0 else now_ms
    return None
