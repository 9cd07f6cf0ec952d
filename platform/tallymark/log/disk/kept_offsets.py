"""Offsets of the logs of a data directory, one of each log, kept in Kafka's checkpoint format
(:mod:`tallymark.log.disk.checkpoint`).

``log-start-offset-checkpoint``, where a log begins inside of a segment::

    0
    1
    orders 0 4711      records of orders-0 below 4711 were deleted (DeleteRecords)

Kafka writes this file once a minute, and leaves out logs that begin with a segment. Here the file
is on the disk before a deletion is acknowledged, so deleted records never come back; and an entry
stays as long as its log, since a power failure may bring back a removed segment, torn.

``replication-offset-checkpoint``, up to where all replicas have a log::

    0
    1
    orders 0 4705      the high watermark of orders-0 was 4705, or more by now

A replica knows it from the leader only, so after a restart this file is all there is. One that is
too low costs a wait, one that is too high shows records that may still be cut: it is lowered on the
disk before a log is cut, and after a start that has found a shorter log.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping
from typing import Final

from tallymark.log.disk.checkpoint import read_checkpoint, write_checkpoint
from tallymark.log.disk.files import Files
from tallymark.log.disk.partition_folder import LogKey

START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
FLUSHED_FIRST: Final = "flushed-first-checkpoint"


class KeptOffsets:
    """Those in one file; none where it is missing or damaged, which is logged. Any thread may call
    the methods, but the entries of one log are of its owner."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._saving = threading.Lock()
        self._unsaved = False
        self._offsets = {
            LogKey(topic, int(number)): int(offset)
            for topic, number, offset in read_checkpoint(files, path, 3)
        }

    def get(self, key: LogKey) -> int:
        """The offset of the log, 0 where there is none."""
        return self._offsets.get(key, 0)

    def put(self, key: LogKey, offset: int) -> None:
        """It is ``offset`` now; on the disk after the next :meth:`save`."""
        if self._offsets.get(key) != offset:
            self._offsets[key] = offset
            self._unsaved = True

    def drop(self, key: LogKey) -> None:
        """The log is gone."""
        if self._offsets.pop(key, None) is not None:
            self._unsaved = True

    def drop_others(self, there: Container[LogKey]) -> None:
        """Only these logs are there."""
        for key in [key for key in self._offsets if key not in there]:
            self.drop(key)

    def save(self) -> None:
        """Return when all that was put before is on the disk; costs nothing where it is already.
        One thread at a time writes, always what is newest. Raises OSError: it is tried again with
        the next call."""
        with self._saving:
            if not self._unsaved:
                return
            self._unsaved = False  # before the entries are read: what comes now is saved later
            entries = sorted(dict(self._offsets).items())
            try:
                lines = [(key.topic, key.partition, offset) for key, offset in entries]
                write_checkpoint(self._files, self._path, lines)
            except BaseException:
                self._unsaved = True
                raise


class StartOffsets(KeptOffsets):
    """The first offset that is kept of each log, 0 where nothing was deleted."""

    def __init__(self, files: Files, folder: str) -> None:
        super().__init__(files, f"{folder}/{START_OFFSETS}")


class HighWatermarks(KeptOffsets):
    """The high watermark of each log as it was known last, 0 where that is not known.
    ``is_missing``: there was no file."""

    def __init__(self, files: Files, folder: str) -> None:
        self.is_missing = not files.exists(f"{folder}/{HIGH_WATERMARKS}")
        super().__init__(files, f"{folder}/{HIGH_WATERMARKS}")

    def settle(self, ends: Mapping[LogKey, int | None]) -> bool:
        """A start has found these logs, which end there (None: one that cannot be opened). Entries
        of other logs go, and none is beyond its log's end. Returns whether one was: that must be
        saved before anything is appended there."""
        self.drop_others(ends)
        lowered = False
        for key, end in ends.items():
            if end is not None and self.get(key) > end:
                self.put(key, end)
                lowered = True
        return lowered
