"""Reading a log, in any thread: the half of :class:`tallymark.log.log.Log` that changes nothing.

A reader takes the list of segments once: it is a value. If a segment is removed from the list
meanwhile, it raises :class:`~tallymark.log.segments.segment.SegmentGoneError`, and the reader takes
the list again.

A log knows its end, and how far it is on the disk. How far consumers may read is the partition's to
know (its high watermark): they pass it as ``until``; None is the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.disk.health import DiskHealth, guarded
from tallymark.log.results import LogSlice
from tallymark.log.segments import offset_lookup as lookup
from tallymark.log.segments.segment import ColdSegmentError, SegmentGoneError
from tallymark.log.segments.segment_list import SegmentList
from tallymark.log.segments.time_search import OffsetAt

T = TypeVar("T")


class ReadableLog:
    """``end_offset`` is the offset of the next record, ``recovery_point`` the flushed end:
    everything below it is on the disk. Only the owner of the log writes the attributes."""

    name: str
    end_offset: int
    recovery_point: int
    _config: LogConfig
    _health: DiskHealth
    _segments: SegmentList
    _start: int
    _closed: bool
    _shut: str | None
    """Why the log cannot be used, None while it can."""

    @property
    def start_offset(self) -> int:
        """The first offset that is kept; it may lie inside of a segment, and of a batch."""
        return max(self._start, self._segments.start_offset)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def read(
        self,
        offset: int,
        max_bytes: int,
        until: int | None = None,
        *,
        min_one: bool = True,
        wait: bool = True,
    ) -> LogSlice:
        """Whole batches from the one that holds ``offset`` on, at most ``max_bytes`` of them, of
        one segment, none that begins at ``until`` or later. ``min_one``: at least one batch,
        however large. Empty between ``until`` and the end. Any thread may call it.

        Raises KafkaError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR; without
        ``wait`` ColdSegmentError where indexes would have to be loaded: call :meth:`warm` in a
        thread, since an event loop must not wait for that.
        """
        self.check_usable()
        if until is None:
            until = self.end_offset
        if not self.start_offset <= offset < until:
            if offset < self.start_offset or offset > self.end_offset:
                raise self._out_of_range(offset)
            return LogSlice(b"", offset)
        with guarded(self._health, f"read {self.name}"):
            try:
                for segment in self._segments.from_offset(offset):
                    if not wait and not segment.is_warm:
                        raise ColdSegmentError(segment.path)
                    found = segment.read(offset, max_bytes, min_one, until)
                    if found is not None and found.data.size:
                        return LogSlice(found.data, found.next_offset)
                    if found is not None:
                        return LogSlice(b"", offset)
            except SegmentGoneError:  # deleted or compacted just now
                return self.read(offset, max_bytes, until, min_one=min_one, wait=wait)
        return LogSlice(b"", until)

    def is_warm(self, offset: int) -> bool:
        """Whether a read from ``offset`` only has to wait for its batches."""
        return self._segments.at(offset).is_warm

    def warm(self, offset: int) -> None:
        """Load the indexes that a read from ``offset`` needs. Any thread may call it."""
        self._look("read", lambda segments: self._find(segments, offset))

    def _find(self, segments: SegmentList, offset: int) -> None:
        for segment in segments.from_offset(offset):
            if segment.find(offset) is not None:
                break

    def offset_for_time(self, timestamp: int, until: int | None = None) -> OffsetAt | None:
        """:func:`tallymark.log.segments.offset_lookup.offset_for_time`. Any thread may."""
        end = self.end_offset if until is None else until
        return self._look(
            "search",
            lambda segments: lookup.offset_for_time(segments, timestamp, self.start_offset, end),
        )

    def max_timestamp(self, until: int | None = None) -> OffsetAt | None:
        """:func:`tallymark.log.segments.offset_lookup.max_timestamp`. Any thread may."""
        end = self.end_offset if until is None else until
        return self._look(
            "search",
            lambda segments: lookup.max_timestamp(segments, self.start_offset, end),
        )

    def offsets_before(self, time_ms: int, max_offsets: int, until: int | None = None) -> list[int]:
        """:func:`tallymark.log.segments.offset_lookup.offsets_before`. Any thread may."""
        end = self.end_offset if until is None else until
        return self._look(
            "search",
            lambda segments: lookup.offsets_before(
                segments, time_ms, max_offsets, self.start_offset, end
            ),
        )

    def _look(self, doing: str, find: Callable[[SegmentList], T]) -> T:
        while True:
            self.check_usable()
            with guarded(self._health, f"{doing} {self.name}"):
                try:
                    return find(self._segments)
                except SegmentGoneError:
                    continue  # the list changed before the file was removed

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            CODES["OFFSET_OUT_OF_RANGE"],
            f"{self.name}: {offset} is not in {self.start_offset} to {self.end_offset}",
        )

    @property
    def is_offline(self) -> bool:
        """Whether the log's disk has failed."""
        return self._health.error is not None

    @property
    def is_closed(self) -> bool:
        """Whether the log was closed, or deleted."""
        return self._closed

    def check_usable(self) -> None:
        """Raise KAFKA_STORAGE_ERROR where the log's disk is offline, or the log is closed;
        REPLICA_NOT_AVAILABLE while it is cut (:mod:`tallymark.log.cutting`)."""
        if self._health.error is not None:
            self._health.check(self.name)
        if self._shut is not None:
            code = "KAFKA_STORAGE_ERROR" if self._closed else "REPLICA_NOT_AVAILABLE"
            raise KafkaError(CODES[code], f"{self.name} is {self._shut}")
