"""Write the journal of a running producer. Layout: :mod:`tallymark_audit.journal.layout`.

The file is locked (``flock``) while its run lives, which is how others know it does. It starts
small and, when full, is rewritten from the present books: into a new file of the size that needs,
complete and locked before it takes the old one's name. Blocks are allocated before they are
mapped, since a write to a mapped page that the disk has no room for kills the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import mmap
import os
import weakref
from pathlib import Path
from typing import Final

from tallymark_audit.journal import layout
from tallymark_audit.tally import Identity, Outcome, Run, Tally, TallyKey

log: Final = logging.getLogger(__name__)
STEP: Final = 64 * 1024
LIMIT: Final = 64 * 1024 * 1024
"""The most a journal may take. Books beyond that are kept in memory only, and a line says so."""


_living: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal:
    """The books of one run, kept in memory and, as long as the disk lets us, in the file.

    Every method that changes the :attr:`tally` writes the entry first. Trouble with the file never
    reaches the caller: the journal is given up with one line of log, the books go on."""

    def __init__(self, directory: Path | None, cluster: str, identity: Identity) -> None:
        """Begin the journal in ``directory``; None: keep the books in memory only."""
        self.tally = Tally(identity)
        self.path = (directory or Path()) / f"{identity.instance}{layout.SUFFIX}"
        self._cluster = cluster
        self._file = -1
        self._map: mmap.mmap | None = None
        self._position = 0
        _living.add(self)
        if directory is None:
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._rewrite()
        except OSError as error:
            self._give_up(error)

    @property
    def kept(self) -> bool:
        """Whether a sudden death would leave the claims behind."""
        return self._map is not None

    def accept(self, run: Run, size: int, now_ms: int, skewed: int = 0) -> None:
        """See :meth:`Tally.accept`; so with the other methods."""
        tally = self.tally
        cell = tally.cells.get(run.key)
        part = cell.part if cell else tally.next_part
        data = layout.accept_entry(part, run, size, now_ms, skewed)
        self._append(data if cell else layout.cell_entry(part, run.key) + data)
        tally.accept(run, size, now_ms, skewed)

    def settle(self, key: TallyKey, outcome: Outcome, first: int, last: int, now_ms: int) -> None:
        cell = self.tally.cells.get(key)
        if cell is not None:
            self._append(layout.settle_entry(cell.part, outcome, first, last, now_ms))
            self.tally.settle(key, outcome, first, last, now_ms)

    def reported(self) -> None:
        """Call between making a report and publishing it: its numbers must not be used again."""
        self._append(layout.report_entry(self.tally.next_event))

    def forget(self, before_ms: int) -> None:
        parts = {key: cell.part for key, cell in self.tally.cells.items()}
        for key, carrier in self.tally.forget(before_ms):
            self._append(layout.drop_entry(parts[key], carrier))

    def close(self, remove: bool) -> None:
        """Let go of the file, and remove it when everything in it has been published."""
        if remove and self._map is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        self._release()

    def _append(self, data: bytes) -> None:
        if self._map is None:
            return
        try:
            # One zero entry must fit behind, it marks the end.
            if self._position + len(data) + 16 > len(self._map):
                self._rewrite(room=len(data))
            self._map[self._position : self._position + len(data)] = data
            self._position += len(data)
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _rewrite(self, room: int = 0) -> None:
        """Put the present books into a new file and let it take the old one's place."""
        entries = layout.header(self._cluster, self.tally.identity)
        entries += b"".join(layout.snapshot(self.tally))
        size = -(-2 * (len(entries) + room) // STEP) * STEP
        if size > LIMIT:
            raise OSError(f"{len(entries)} bytes of open claims are more than a journal may hold")
        draft = self.path.with_suffix(layout.DRAFT)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if hasattr(os, "posix_fallocate"):  # so that a full disk is an error here, not SIGBUS
                os.posix_fallocate(file, 0, size)
            else:
                os.truncate(file, size)
            mapped = mmap.mmap(file, size)  # MAP_SHARED
            mapped[: len(entries)] = entries
            os.rename(draft, self.path)
        except BaseException:
            os.close(file)
            draft.unlink(missing_ok=True)
            raise
        self._release()
        self._file, self._map, self._position = file, mapped, len(entries)

    def _release(self) -> None:
        if self._map is not None:
            self._map.close()
        if self._file >= 0:
            os.close(self._file)
        self._file, self._map = -1, None

    def _give_up(self, error: Exception) -> None:
        """A journal that is not up to date would tell lies at the next start: remove it."""
        log.warning(
            "no journal at %s (%s): a sudden death of this process would leave its claims unknown",
            self.path,
            error,
        )
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        self._release()


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's journals locked, and must not write to them."""
    for journal in list(_living):
        journal.close(remove=False)


os.register_at_fork(after_in_child=_let_go_in_child)
