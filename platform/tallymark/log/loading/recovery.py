"""The recovery of a log after a crash: verifies what was not known to be on the disk, and cuts what
is damaged.

Everything before the *recovery point* was flushed and is trusted. From the segment that holds this
point on, and always in the newest segment, every batch is checked: header, order of offsets, CRC.
The log ends after the last good batch. A torn write, garbage and zeros behind it are cut off, newer
segments are removed, and the indexes are built again. Only records that were never flushed can be
lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import crc32c

from tallymark.log.disk.files import Handle
from tallymark.log.loading.epochs_of_batches import noting_epochs
from tallymark.log.segments.scan import Window, header_at
from tallymark.log.segments.segment import Segment
from tallymark.log.segments.segment_list import SegmentList
from tallymark.protocol.records.batch import BatchHeader

log = logging.getLogger(__name__)

_CHUNK: Final = 1 << 20
_CRC_FROM: Final = 21  # the CRC covers the batch from its attributes on


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of a recovery: ``verified`` bytes are good, ``cut`` bytes were not and are gone;
    the log now ends at ``end_offset``. ``first`` is the base offset of the first segment that was
    checked; ``epochs`` are the (leader epoch, offset) from there on, where the epoch changes;
    ``markers``: whether there are control batches."""

    first: int
    end_offset: int
    verified: int
    cut: int
    epochs: tuple[tuple[int, int], ...]
    markers: bool = False


def recover(segments: SegmentList, recovery_point: int) -> tuple[SegmentList, Recovered]:
    """Verify, cut and return the segments that remain."""
    suspects = segments.from_offset(recovery_point)
    verified = cut = 0
    epochs: list[tuple[int, int]] = []
    markers: list[int] = []
    for number, segment in enumerate(suspects):
        batches = noting_epochs(_noting_markers(verified_batches(segment), markers), epochs)
        whole, next_offset = segment.build_indexes(batches)
        segment.end_at(next_offset)
        verified += whole
        later = suspects[number + 1 :]
        # A power failure may remove all of a segment and keep the name of the next one.
        if whole < segment.size or (later and later[0].base_offset != next_offset):
            cut = segment.size - whole + sum(each.size for each in later)
            _cut(segment, whole, later)
            segments = SegmentList((*segments,)[: len(segments) - len(later)])
        if segment is segments.active:
            break
    end = segments.active.next_offset
    if cut or end <= recovery_point:  # else the first flush brings the indexes to the disk
        for segment in segments.from_offset(suspects[0].base_offset):
            segment.settle_indexes()
    first = suspects[0].base_offset
    return segments, Recovered(first, end, verified, cut, tuple(epochs), bool(markers))


def _noting_markers(
    batches: Iterator[tuple[int, BatchHeader]], markers: list[int]
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches; the offset of the first control batch goes into ``markers``."""
    for each in batches:
        if not markers and each[1].is_control:
            markers.append(each[1].base_offset)
        yield each


def _cut(segment: Segment, whole: int, later: Sequence[Segment]) -> None:
    """End the log at position ``whole`` of the segment."""
    log.warning(
        "%s: no valid batch at position %d: cut %d bytes and %d newer segments; "
        "the log ends at offset %d",
        segment.path,
        whole,
        segment.size - whole,
        len(later),
        segment.next_offset,
    )
    segment.truncate(whole)
    for each in reversed(later):
        each.remove()


def verified_batches(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the good batches of the file, up to the first that is not."""
    handle, size = segment.file.handle, segment.size
    window = Window(handle, size, _CHUNK)
    position, expected = 0, segment.base_offset
    while (header := header_at(window, position)) is not None:
        if header.base_offset < expected or header.last_offset_delta < 0:
            return
        if (
            position + header.size > size
            or batch_crc(window, handle, position, header) != header.crc
        ):
            return
        yield position, header
        position += header.size
        expected = header.next_offset


def batch_crc(window: Window, handle: Handle, position: int, header: BatchHeader) -> int:
    """CRC-32C of a batch, in chunks where it is large: garbage may claim to be a gigabyte."""
    if header.size <= _CHUNK:
        return crc32c.crc32c(window.view(position, header.size)[_CRC_FROM:])
    crc, end = 0, position + header.size
    for start in range(position + _CRC_FROM, end, _CHUNK):
        crc = crc32c.crc32c(handle.pread(min(_CHUNK, end - start), start), crc)
    return crc
