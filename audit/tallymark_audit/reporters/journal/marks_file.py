"""What a consumer has in flight, in a file beside its journal, written without a call for each
message.

``<instance>.marks``, 64 KiB, mapped and shared: the page cache keeps what a killed process wrote.

::

    0        8        16       24
    +--------+--------+--------+--------+-- - -
    |  done  |  last  |  done  |  last  |          i64, in the machine's order
    +--------+--------+--------+--------+-- - -
      slot 0            slot 1

The journal says which partition a slot belongs to (VIEW). What the numbers mean:
:class:`tallymark_audit.reporters.processing.processing.InFlightMark`. Each is written in one step,
so that a death leaves the old or the new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Final

from tallymark_audit.reporters.journal.disk import Disk, Mapped
from tallymark_audit.reporters.processing.processing import InFlightMark

log: Final = logging.getLogger(__name__)
MARKS_SUFFIX: Final = ".marks"
SIZE: Final = 64 * 1024
SLOTS: Final = SIZE // 16
"""More partitions have no slot: after a death it is not known what of them was in flight."""


class MarksFile:
    """The file of one run. The memory stays as long as there is a view of it."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Make the file. OSError: the disk refuses it."""
        self.path = path
        self._disk = disk
        self._mapped: Mapped | None = disk.create(path, SIZE)
        self._numbers = memoryview(self._mapped.map).cast("q")
        self._next = 0

    def take(self) -> tuple[int, memoryview] | None:
        """The next slot, and its view. None: all are in use."""
        slot = self._next
        if slot == SLOTS:
            return None
        self._next += 1
        view = self._numbers[2 * slot : 2 * slot + 2]
        view[0], view[1] = InFlightMark()
        return slot, view

    def close(self, remove: bool) -> None:
        """Close the file, but keep the memory: a stream may still write there."""
        if self._mapped is None:
            return
        os.close(self._mapped.file)
        self._mapped = None
        if remove:
            with contextlib.suppress(OSError):
                self._disk.remove(self.path)


def read_marks(path: Path) -> dict[int, InFlightMark]:
    """What a dead run had in flight, by slot; empty if there is no such file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        log.warning("cannot read the marks %s: %s", path, error)
        return {}
    numbers = memoryview(data[: len(data) // 16 * 16]).cast("q")
    return {at // 2: InFlightMark(numbers[at], numbers[at + 1]) for at in range(0, len(numbers), 2)}
