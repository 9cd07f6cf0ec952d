"""The start offset of each log of a data directory, where it is inside of a segment.

``log-start-offset-checkpoint`` in the data directory, in Kafka's checkpoint format::

    0
    1
    orders 0 4711      records of orders-0 below 4711 were deleted (DeleteRecords)

Kafka writes this file once a minute, and leaves out logs that begin with a segment. Here the file
is on the disk before a deletion is acknowledged, so deleted records never come back; and an entry
stays as long as its log, since a power failure may bring back a removed segment, torn.
"""

from __future__ import annotations

import threading
from typing import Final

from tallymark.log.disk.checkpoint import read_checkpoint, write_checkpoint
from tallymark.log.disk.files import Files
from tallymark.log.disk.partition_folder import LogKey

FILE_NAME: Final = "log-start-offset-checkpoint"


class StartOffsets:
    """The start offsets of one data directory. Any thread may call :meth:`save`; the rest belongs
    to the owner of the logs."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{FILE_NAME}"
        self._lock = threading.Lock()
        self._offsets = {
            LogKey(topic, int(number)): int(offset)
            for topic, number, offset in read_checkpoint(files, self._path, 3)
        }
        self._version = self._saved = 0

    def get(self, key: LogKey) -> int:
        """The first offset that is kept, 0 where nothing was deleted."""
        return self._offsets.get(key, 0)

    def put(self, key: LogKey, offset: int) -> None:
        """Records below ``offset`` are deleted; on the disk after the next :meth:`save`."""
        self._offsets[key] = offset
        self._version += 1

    def drop(self, key: LogKey) -> None:
        """The log is gone."""
        self._offsets.pop(key, None)
        self._version += 1

    def save(self) -> None:
        """Return when all that was put before is on the disk. Callers in several threads share one
        write."""
        wanted = self._version
        with self._lock:
            if self._saved < wanted:
                version, entries = self._version, sorted(dict(self._offsets).items())
                lines = [(key.topic, key.partition, offset) for key, offset in entries]
                write_checkpoint(self._files, self._path, lines)
                self._saved = version
