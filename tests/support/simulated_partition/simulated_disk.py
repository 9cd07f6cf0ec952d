"""What a simulated machine has on its disk: a log of (epoch, value), what of it is flushed, the
epochs, the checkpoint of the high watermark, the marks that tell whether the log is intact."""

from __future__ import annotations

import random
from collections.abc import Mapping

from simulated_nodes import PARTITION

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.following import LogView
from tallymark.replication.model import Tail
from tallymark.replication.registration import NOT_INTACT, LocalLog, is_intact
from tallymark.replication.truncation import epochs_up_to, last_epoch_of

Record = tuple[int, int]
"""(leader epoch, value)"""


class Disk:
    """It survives the processes of its broker. ``flushes_first``: they run with
    flush.before.expose."""

    def __init__(self, flushes_first: bool) -> None:
        self.flushes_first = flushes_first
        self.log: list[Record] = []
        self.epochs: tuple[tuple[int, int], ...] = ()
        self.flushed = 0
        self.high_watermark = 0
        self.exists = False
        self.clean = False
        """The marker of a clean stop is there."""
        self.rotten: set[int] = set()
        """Offsets whose bytes are not any more what was written."""
        self.found = -1
        """From there on the process that runs knows the log to be bad; -1: nothing is known."""
        self.boots = 1
        self.boot = str(self.boots)
        """The boot that is remembered; "" for none."""

    @property
    def view(self) -> LogView:
        return LogView(0, len(self.log), self.epochs, self.found)

    @property
    def tail(self) -> Tail:
        return Tail(last_epoch_of(self.epochs, len(self.log)), len(self.log))

    @property
    def exposed(self) -> int:
        """The end of what may be told to others."""
        return self.flushed if self.flushes_first else len(self.log)

    def opened(self) -> bool:
        """A process opens the log: whether it has all that was told to others."""
        self.found = -1
        clean, self.clean = self.clean, False
        intact = is_intact(
            clean=clean,
            boot_then=self.boot,
            boot_now=str(self.boots),
            flushed_first=self.flushes_first,
        )
        if not intact:
            self.boot = NOT_INTACT
        return intact

    def logs(self, intact: bool) -> Mapping[TopicPartition, LocalLog]:
        return {PARTITION: LocalLog(self.tail, intact)} if self.exists else {}

    def remember_boot(self) -> None:
        self.boot = str(self.boots)

    def append(self, record: Record) -> None:
        self.begin_epoch(record[0])
        self.log.append(record)

    def begin_epoch(self, epoch: int) -> None:
        """Epochs without a record are replaced, as in a real cache."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            end = len(self.log)
            self.epochs = (*(one for one in self.epochs if one[1] < end), (epoch, end))

    def flush(self) -> None:
        self.flushed = len(self.log)

    def cut(self, to: int) -> None:
        del self.log[to:]
        self.epochs = epochs_up_to(to, self.epochs)
        self.flushed = min(self.flushed, to)
        self.high_watermark = min(self.high_watermark, to)
        self.rotten = {one for one in self.rotten if one < to}
        if to <= self.found:
            self.found = -1

    def good(self, offset: int, most: int) -> tuple[list[Record], bool]:
        """At most so many records from there on, and whether the one after them is rotten."""
        records = self.log[offset : offset + most]
        bad = [one for one in range(offset, offset + len(records)) if one in self.rotten]
        return (records[: bad[0] - offset], True) if bad else (records, False)

    def tail_below(self, offset: int) -> Tail:
        return Tail(last_epoch_of(self.epochs, offset), offset)

    def stopped(self) -> None:
        """A clean stop."""
        self.flush()
        self.clean = True

    def power_failure(self, chances: random.Random) -> None:
        self.boots += 1
        self.cut(chances.randint(self.flushed, len(self.log)))

    def delete(self) -> None:
        """The partition is not assigned here any more."""
        self.cut(0)
        self.exists = False

    def wipe(self) -> None:
        """Another disk."""
        self.delete()
        self.boots += 1
        self.boot = ""
        self.clean = False
