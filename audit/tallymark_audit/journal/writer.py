"""Write the journal of a running producer. Layout: :mod:`tallymark_audit.journal.layout`.

The file starts small and, when full, is rewritten from the present books: into a new file of the
size that needs, complete and locked before it takes the old one's name.
"""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tallymark_audit.cells import Block
from tallymark_audit.journal import layout
from tallymark_audit.journal.disk import Disk, Mapped
from tallymark_audit.reports.runs import Run, TallyKey
from tallymark_audit.reports.tally import Identity, Tally
from tallymark_audit.reports.tally_cell import Outcome

log: Final = logging.getLogger(__name__)
STEP: Final = 64 * 1024
LIMIT: Final = 64 * 1024 * 1024
"""The most a journal may take. Books beyond that are kept in memory only, and a line says so."""
MEND_MS: Final = 60_000
"""A journal that was given up is tried again after this, and after ever longer."""
LONGEST_MEND_MS: Final = 3_600_000


_living: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal:
    """The books of one run, kept in memory and, as long as the disk lets us, in the file.

    Every method that changes the :attr:`tally` writes the entry first. Trouble with the file never
    reaches the caller: the journal is given up with one line of log, the books go on, and
    :meth:`mend` begins another one when the disk may be better. ``losses`` counts that."""

    def __init__(
        self,
        directory: Path | None,
        cluster: str,
        identity: Identity,
        max_ranges: int = 10_000,
        disk: Disk | None = None,
    ) -> None:
        """Begin the journal in ``directory``; None: keep the books in memory only."""
        self.tally = Tally(identity, max_ranges)
        self.path = (directory or Path()) / f"{identity.instance}{layout.SUFFIX}"
        self.losses = 0
        self._cluster = cluster
        self._disk = disk or Disk()
        self._mapped: Mapped | None = None
        self._size = 0
        self._position = 0
        self._wanted = directory is not None
        self._pause = MEND_MS
        self._mend_at: int | None = None
        self._delivered = 0
        _living.add(self)
        if self._wanted:
            self._begin()

    @property
    def kept(self) -> bool:
        """Whether a sudden death would leave the claims behind."""
        return self._mapped is not None

    def accept(self, run: Run, size: int, now_ms: int, skewed: int = 0) -> bool:
        """See :meth:`Tally.accept`; False: there was no room, see :meth:`Tally.leave_out`."""
        tally = self.tally
        cell = tally.cells.get(run.key)
        if cell is not None:
            self._append(layout.accept_entry(cell.part, run, size, now_ms, skewed))
            tally.accept_in(cell, run, size, now_ms, skewed)
        elif tally.has_room(run.key) or self._made_room():
            part = tally.next_part
            accepted = layout.accept_entry(part, run, size, now_ms, skewed)
            self._append(layout.cell_entry(part, run.key) + accepted)
            tally.accept(run, size, now_ms, skewed)
        else:
            records = run.last - run.first + 1
            self._append(layout.left_out_entry(records, run.min_timestamp))
            tally.leave_out(records, run.min_timestamp)
            return False
        return True

    def settle(
        self,
        key: TallyKey,
        outcome: Outcome,
        first: int,
        last: int,
        now_ms: int,
        latency: int | None = None,
    ) -> None:
        """See :meth:`Tally.settle`; so with the other methods."""
        cell = self.tally.cells.get(key)
        if cell is None:
            return
        if outcome is Outcome.ACKNOWLEDGED:
            self._append(layout.acknowledge_entry(cell.part, first, last, now_ms, latency))
        else:
            self._append(layout.settle_entry(cell.part, outcome, first, last, now_ms))
        self.tally.settle_in(cell, outcome, first, last, now_ms, latency)

    def fold(self, key: TallyKey, blocks: Sequence[Block]) -> None:
        cell = self.tally.cells.get(key)
        if cell is None:
            return
        for at in range(0, len(blocks), layout.BLOCKS_PER_ENTRY):
            some = blocks[at : at + layout.BLOCKS_PER_ENTRY]
            self._append(layout.contents_entry(cell.part, some))
            self.tally.fold(key, some)

    def reported(self) -> None:
        """Call between making a report and publishing it: its numbers must not be used again."""
        self._append(layout.report_entry(self.tally.next_event))

    def forget(self, before_ms: int) -> None:
        self._drop(self.tally.at_rest(before_ms))

    def forget_told(self) -> None:
        self._drop(self.tally.told_at_rest())

    def mend(self, now_ms: int) -> None:
        """Begin the journal again, some time after it was given up."""
        if self._mapped is not None or not self._wanted:
            return
        if self._mend_at is None:
            self._mend_at = now_ms + self._pause
            self._pause = min(2 * self._pause, LONGEST_MEND_MS)
        elif now_ms >= self._mend_at:
            self._mend_at = None
            self._begin()

    def close(self, remove: bool) -> None:
        """Let go of the file, and remove it when everything in it has been published."""
        if remove and self._mapped is not None:
            with contextlib.suppress(OSError):
                self._disk.remove(self.path)
        self._wanted = False
        self._release()

    def _made_room(self) -> bool:
        """Forget what is told; worth a try only when more is told than the last time."""
        if self.tally.delivered == self._delivered:
            return False
        self._delivered = self.tally.delivered
        told = self.tally.told_at_rest()
        self._drop(told)
        return bool(told)

    def _drop(self, keys: Sequence[TallyKey]) -> None:
        for key in keys:
            cell = self.tally.cells[key]
            self._append(layout.drop_entry(cell.part, cell.carrier))
            self.tally.drop(key, cell.carrier)

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
        entries = layout.header(self._cluster, self.tally.identity)
        entries += b"".join(layout.snapshot(self.tally))
        size = -(-2 * (len(entries) + room) // STEP) * STEP
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
        """A journal that is not up to date would tell lies at the next start: remove it."""
        if not self.losses:
            log.warning(
                "no journal at %s (%s): a sudden death of this process would leave its claims "
                "unknown",
                self.path,
                error,
            )
        self.losses += 1
        with contextlib.suppress(OSError):
            self._disk.remove(self.path)
        self._release()


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's journals locked, and must not write to them."""
    for journal in list(_living):
        journal.close(remove=False)


os.register_at_fork(after_in_child=_let_go_in_child)
