"""Write the journal of a running producer, laid out as in :mod:`.layout`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark_audit.model.cells import Block
from tallymark_audit.reporters.books.runs import Run, TallyKey
from tallymark_audit.reporters.books.tally import ReporterIdentity, Tally
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal import layout
from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.reporters.journal.file import JournalFile
from tallymark_audit.reporters.journal.transactions import this_boot


class TallyJournal(JournalFile):
    """The journal of a tally: what producers and consumers write alike. Every method that changes
    the :attr:`tally` writes the entry first."""

    tally: Tally

    def reported(self) -> None:
        """Call between making a report and publishing it: its numbers must not be used again."""
        self._append(layout.report_entry(self.tally.next_event))

    def drop(self, keys: Sequence[TallyKey]) -> None:
        """Forget these cells."""
        for key in keys:
            cell = self.tally.cells[key]
            self._append(layout.drop_entry(cell.part, cell.carrier))
            self.tally.drop(key, cell.carrier)


class Journal(TallyJournal):
    """The books of one run, kept in memory and, as long as the disk takes it, in the file. What
    happens when the disk does not: :class:`~tallymark_audit.reporters.journal.file.JournalFile`."""

    def __init__(
        self,
        directory: Path | None,
        cluster: str,
        identity: ReporterIdentity,
        max_ranges: int = 10_000,
        disk: Disk | None = None,
    ) -> None:
        """Begin the journal in ``directory``; None: keep the books in memory only."""
        super().__init__(directory, identity.instance, disk)
        self.tally = Tally(identity, max_ranges)
        self._cluster = cluster
        self._delivered = 0
        if self._wanted:
            self._begin()

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
        """See :meth:`Tally.settle`."""
        cell = self.tally.cells.get(key)
        if cell is None:
            return
        if outcome is Outcome.ACKNOWLEDGED:
            self._append(layout.acknowledge_entry(cell.part, first, last, now_ms, latency))
        else:
            self._append(layout.settle_entry(cell.part, outcome, first, last, now_ms))
        self.tally.settle_in(cell, outcome, first, last, now_ms, latency)

    def transaction_is(self, stage: TransactionStage | None) -> None:
        """The open transaction has come that far; None: what was pending in it is settled."""
        self._append(layout.transaction_entry(stage, this_boot()))
        self.tally.transaction = stage

    def fold(self, key: TallyKey, blocks: Sequence[Block]) -> None:
        """See :meth:`Tally.fold`; one entry for at most :data:`.layout.BLOCKS_PER_ENTRY` blocks."""
        cell = self.tally.cells.get(key)
        if cell is None:
            return
        for at in range(0, len(blocks), layout.BLOCKS_PER_ENTRY):
            some = blocks[at : at + layout.BLOCKS_PER_ENTRY]
            self._append(layout.contents_entry(cell.part, some))
            self.tally.fold(key, some)

    def _made_room(self) -> bool:
        """Forget what is published; worth a try only when more is published than the last time."""
        if self.tally.delivered == self._delivered:
            return False
        self._delivered = self.tally.delivered
        contents = self.tally.published_at_rest()
        self.drop(contents)
        return bool(contents)

    def _snapshot(self) -> bytes:
        head = layout.header(self._cluster, self.tally.identity)
        return head + b"".join(layout.snapshot(self.tally))
