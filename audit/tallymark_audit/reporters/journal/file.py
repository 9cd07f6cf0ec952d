"""The file of a journal, kept as long as the disk takes it. Layout: :mod:`.layout`.

The file starts small. When it is full it is rewritten from the present books, into a new file of
the size that they need, which is complete and locked before it takes the old one's name.
"""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from pathlib import Path
from typing import Final

from tallymark_audit.reporters.journal import layout
from tallymark_audit.reporters.journal.disk import Disk, Mapped

log: Final = logging.getLogger(__name__)
STEP: Final = 64 * 1024
LIMIT: Final = 64 * 1024 * 1024
"""The largest journal. Larger books are kept in memory only, and one line of log says so."""
MEND_MS: Final = 60_000
"""A journal that was given up is begun again after this time, and then after longer times."""
LONGEST_MEND_MS: Final = 3_600_000


_living: weakref.WeakSet[JournalFile] = weakref.WeakSet()


class JournalFile:
    """Entries, each appended before what it records is done. ``step``: the size of the file is a
    multiple of this many bytes.

    An error of the disk never reaches the caller: the file is given up with one line of log, the
    books go on, and :meth:`mend` begins another file later. ``losses`` counts that.
    """

    def __init__(
        self, directory: Path | None, instance: str, disk: Disk | None = None, step: int = 0
    ) -> None:
        """Nothing is written before :meth:`_begin`; ``directory`` None: never."""
        self.path = (directory or Path()) / f"{instance}{layout.SUFFIX}"
        self.losses = 0
        self._disk = disk or Disk()
        self._step = step or STEP
        self._mapped: Mapped | None = None
        self._size = 0
        self._position = 0
        self._wanted = directory is not None
        self._pause = MEND_MS
        self._mend_at: int | None = None
        _living.add(self)

    @property
    def kept(self) -> bool:
        """Whether the claims would survive a sudden death."""
        return self._mapped is not None

    def mend(self, now_ms: int) -> None:
        """Begin the journal again if some time has passed since it was given up."""
        if self._mapped is not None or not self._wanted:
            return
        if self._mend_at is None:
            self._mend_at = now_ms + self._pause
            self._pause = min(2 * self._pause, LONGEST_MEND_MS)
        elif now_ms >= self._mend_at:
            self._mend_at = None
            self._begin()

    def close(self, remove: bool) -> None:
        """Close the file; ``remove`` it too when everything in it has been published."""
        if remove and self._mapped is not None:
            with contextlib.suppress(OSError):
                self._disk.remove(self.path)
        self._wanted = False
        self._release()

    def _snapshot(self) -> bytes:
        """The header, and the entries that give the books as they are now."""
        raise NotImplementedError

    def _begin(self) -> None:
        try:
            self._disk.make_folder(self.path.parent)
            self._rewrite()
        except OSError as error:
            self._give_up(error)
            return
        if self.losses:
            log.warning("the journal at %s is kept again", self.path)

    def _append(self, data: bytes) -> None:
        if self._mapped is None:
            return
        try:
            # One zero entry must fit behind, it marks the end.
            if self._position + len(data) + 16 > self._size:
                self._rewrite(room=len(data))
            self._disk.write(self._mapped, self._position, data)
            self._position += len(data)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _rewrite(self, room: int = 0) -> None:
        """Put the present books into a new file and let it take the old one's place."""
        entries = self._snapshot()
        size = -(-2 * (len(entries) + room) // self._step) * self._step
        if size > LIMIT:
            raise OSError(f"{len(entries)} bytes of open claims are more than a journal may hold")
        draft = self.path.with_suffix(layout.DRAFT)
        mapped = self._disk.create(draft, size)
        try:
            self._disk.write(mapped, 0, entries)
            self._disk.rename(draft, self.path)
        except OSError:
            mapped.close()
            with contextlib.suppress(OSError):
                self._disk.remove(draft)
            raise
        self._release()
        self._mapped, self._size, self._position = mapped, size, len(entries)

    def _release(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
        self._mapped = None

    def _give_up(self, error: Exception) -> None:
        """A journal that is not up to date would make wrong claims at the next start: remove it."""
        if not self.losses:
            log.warning(
                "no journal at %s (%s): a sudden death of this process would leave its claims "
                "unknown; it is tried again, if the disk refuses it make room, let this user write "
                "there, or give another folder with journal_dir",
                self.path,
                error,
            )
        self.losses += 1
        with contextlib.suppress(OSError):
            self._disk.remove(self.path)
        self._release()


def _let_go_in_child() -> None:
    """A forked child must neither keep its parent's journals locked nor write to them."""
    for journal in list(_living):
        journal.close(remove=False)


os.register_at_fork(after_in_child=_let_go_in_child)
