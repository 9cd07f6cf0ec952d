"""What a simulated broker has on its disk: a log of (epoch, value), what of it is flushed, the
epochs, the checkpoint of the high watermark."""

from __future__ import annotations

import random

from tallymark.replication.following import LogView
from tallymark.replication.model import Tail
from tallymark.replication.truncation import epochs_up_to, last_epoch_of

Record = tuple[int, int]
"""(leader epoch, value)"""


class Disk:
    """It survives the processes of its broker. ``intact``: no power failure since the last start.
    ``changes`` counts cuts, so that checks need not look again at what only grew."""

    def __init__(self) -> None:
        self.log: list[Record] = []
        self.epochs: tuple[tuple[int, int], ...] = ()
        self.flushed = 0
        self.high_watermark = 0
        self.intact = True

    @property
    def view(self) -> LogView:
        return LogView(0, len(self.log), self.epochs)

    @property
    def tail(self) -> Tail:
        return Tail(last_epoch_of(self.epochs, len(self.log)), len(self.log))

    def append(self, record: Record) -> None:
        self.begin_epoch(record[0])
        self.log.append(record)

    def begin_epoch(self, epoch: int) -> None:
        """Epochs without a record are replaced, as in a real cache."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            end = len(self.log)
            self.epochs = (*(one for one in self.epochs if one[1] < end), (epoch, end))

    def cut(self, to: int) -> None:
        del self.log[to:]
        self.epochs = epochs_up_to(to, self.epochs)
        self.flushed = min(self.flushed, to)
        self.high_watermark = min(self.high_watermark, to)

    def power_failure(self, rng: random.Random) -> None:
        self.intact = False
        self.cut(rng.randint(self.flushed, len(self.log)))

    def wipe(self) -> None:
        self.intact = False
        self.cut(0)
