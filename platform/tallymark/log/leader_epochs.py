"""Which leader epoch began at which offset, so that readers can detect a truncation (KIP-101, 320).

``leader-epoch-checkpoint``, in Kafka's checkpoint format::

    0
    2
    0 0        epoch 0 began at offset 0
    3 4711     epoch 3 began at offset 4711

A consumer that read up to 5000 in epoch 0 and requests the end of epoch 0 gets 4711: what it read
from there on is no longer in the log. This works because a new leader epoch begins at the end of
the log *after* recovery, and every cut drops the epochs that began at or behind it.

An append notes its epoch in memory only, since the event loop must not wait for the disk: every
batch carries its epoch, and a recovery reads those behind the recovery point again. So the file has
to hold an epoch before the recovery point passes its records: the flush saves it.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.log.disk.checkpoint import read_checkpoint, write_checkpoint
from tallymark.log.disk.files import Files
from tallymark.replication.truncation import end_of_epoch

FILE_NAME: Final = "leader-epoch-checkpoint"


class LeaderEpochs:
    """The epochs of one log, ascending, kept in its folder. The log's owner changes them; any
    thread may :meth:`save` and read.

    ``highest`` is the greatest epoch the log ever was in, cut or not: a new one must be above it.
    ``noted`` is the current epoch, for which an append need not call :meth:`note`; None after a
    truncation.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
        self._entries: tuple[tuple[int, int], ...] = ()
        """Replaced, never changed: a thread may be writing it to the disk."""
        self._saving = threading.Lock()
        self._unsaved = False
        for epoch, start in read_checkpoint(files, self._path, 2):
            self._add(int(epoch), int(start))
        self.noted: int | None = self.latest
        self.highest = self.latest

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """(epoch, start offset), ascending in both."""
        return self._entries

    @property
    def latest(self) -> int:
        """The current epoch, -1 before the first."""
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """:meth:`note`, durable on return. It waits for the disk."""
        self.note(epoch, start_offset)
        self.save()

    def note(self, epoch: int, start_offset: int) -> None:
        """From ``start_offset`` on records are written in ``epoch``; no effect where that is known.
        Durable after :meth:`save`.

        Raises FENCED_LEADER_EPOCH where the log is in a newer epoch.
        """
        if epoch < self.latest:
            raise KafkaError(
                CODES["FENCED_LEADER_EPOCH"], f"epoch {epoch}, the log is in {self.latest}"
            )
        if epoch > self.latest:
            self._add(epoch, start_offset)
        if epoch != self.noted:
            self.noted = epoch
            self.highest = max(self.highest, epoch)
            self._unsaved = True

    def save(self) -> None:
        """Write what was noted, durably; costs nothing where nothing was. One thread at a time
        writes, always what is newest (KAFKA-16541, KAFKA-17142). Raises OSError: it is tried again
        with the next call."""
        with self._saving:
            if not self._unsaved:
                return
            self._unsaved = False  # before the entries are read: what comes now is saved later
            try:
                write_checkpoint(self._files, self._path, self._entries)
            except BaseException:
                self._unsaved = True
                raise

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(epoch, end offset) of the greatest epoch not above ``epoch`` (KIP-320, KIP-279).

        The current epoch ends at ``log_end``. An epoch older than all known ones ends where the
        first known one begins; one that is newer than the current, or -1, is (-1, -1).
        """
        return end_of_epoch(self._entries, log_end, epoch)

    def cut_end(self, end_offset: int) -> None:
        """The log ends at ``end_offset``: epochs that began there or later hold nothing.

        The file keeps them until the next epoch is assigned. If it dropped them and the process
        were killed before that, the next start would not know which epochs were used.
        """
        kept = tuple(entry for entry in self._entries if entry[1] < end_offset)
        if len(kept) != len(self._entries):
            self._entries = kept
            self.noted = None

    def cut(self, end_offset: int) -> None:
        """:meth:`cut_end` of a log that is cut there, durable on return. The file must forget the
        epochs: the log may go on with records of an older one at these offsets. That their numbers
        are not used again is known elsewhere (the partition's state node); of these records that
        were not cut after a crash, a recovery reads the epochs again."""
        before = self._entries
        self.cut_end(end_offset)
        if self._entries != before:
            self._unsaved = True
        self.save()

    def since(self, offset: int, log_end: int) -> tuple[tuple[int, int], ...]:
        """(epoch, first offset) of the records from ``offset`` on, and of the epochs that begin
        there or later without any."""
        later = [entry for entry in self._entries if entry[1] >= offset]
        epoch = self.epoch_of(offset)
        if offset < log_end and epoch >= 0 and (not later or later[0][1] > offset):
            later.insert(0, (epoch, offset))
        return tuple(later)

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at ``offset``, of the next one at the end of the log; -1 where
        that is not known."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[number - 1][0] if number else -1

    def cut_start(self, start_offset: int) -> None:
        """Records before ``start_offset`` are gone; the epoch that spans it begins there now. The
        file may keep the older ones: they are cut again when it is read."""
        gone = [entry for entry in self._entries if entry[1] <= start_offset]
        if len(gone) > 1 or (gone and gone[0][1] < start_offset):
            self._entries = ((gone[-1][0], start_offset), *self._entries[len(gone) :])

    def _add(self, epoch: int, start: int) -> None:
        """Append; an epoch in which nothing was written makes way for the next one."""
        kept = list(self._entries)
        while kept and (kept[-1][0] >= epoch or kept[-1][1] >= start):
            kept.pop()
        self._entries = (*kept, (epoch, start))
