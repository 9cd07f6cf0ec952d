"""The offset up to which each log of this broker is clean, in memory and in the data
directories."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary

from tallymark.log import Log
from tallymark.log.compaction.checkpoint import read_clean_points, write_clean_points
from tallymark.log.disk.files import Files
from tallymark.log.disk.partition_folder import LogKey, key_of

log = logging.getLogger(__name__)

UNKNOWN: Final = -1


class CleanPoints:
    """Log -> first dirty offset, :data:`UNKNOWN` before its first compaction.

    The key is the log, not its name: a topic that was deleted and created again is all dirty.
    """

    def __init__(self, files: Files, logs: Iterable[Log]) -> None:
        self._files = files
        self._points: WeakKeyDictionary[Log, int] = WeakKeyDictionary()
        stored: dict[str, dict[LogKey, int]] = {}
        for each in logs:
            home = os.path.dirname(each.directory)
            if home not in stored:
                stored[home] = read_clean_points(files, home)
            offset = stored[home].get(key_of(each.name))
            if offset is not None:
                self._points[each] = offset

    def of(self, target: Log) -> int:
        return self._points.get(target, UNKNOWN)

    def move(self, target: Log, offset: int) -> None:
        """A compaction has ended at ``offset``, or the log is cut there. Call it on the owner's
        thread, then :meth:`save`."""
        self._points[target] = offset

    def entries(self, home: str) -> dict[str, int]:
        """The entries to save in a data directory: folder name -> offset."""
        return {
            each.name: offset
            for each, offset in self._points.items()
            if not each.is_closed and os.path.dirname(each.directory) == home
        }

    def save(self, home: str, entries: dict[str, int]) -> None:
        """Write the entries; safe from any thread. If that fails, those logs are compacted again
        after a restart."""
        try:
            points = {key_of(name): offset for name, offset in entries.items()}
            write_clean_points(self._files, home, points)
        except OSError as error:
            log.warning("%s: clean points are not saved: %s", home, error)
