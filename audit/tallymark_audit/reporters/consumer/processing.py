"""What one run of a consumer has in hand, on the desk, and in its books. Pure.

The journal of a consumer records these calls in order, so that replaying them gives the same books
under the same numbers. How far the application is within what it has in hand is not told by calls,
which would cost too much a message: that is in the :class:`Hold` of each partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import Identity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.consumer.ack_batcher import Desk, Done
from tallymark_audit.reporters.consumer.books import ConsumerBooks
from tallymark_audit.reporters.consumer.in_flight import Hand, Place
from tallymark_audit.reporters.consumer.messages import Told

ONE: Final = -1


class Hold(NamedTuple):
    """Of one partition: all that was handed out before ``done`` is processed, ``done`` to ``last``
    may be in hand (ONE: only ``done``; less than ``done``: nothing). As the connector writes it:
    :mod:`tallymark.client.consuming.marks`; -1: nobody has told."""

    done: int = -1
    last: int = -2

    @property
    def behind(self) -> int:
        """The offset behind what may be in hand."""
        return self.done + 1 if self.last == ONE else max(self.done, self.last + 1)


class Processing:
    """Not thread-safe. Times in ms."""

    def __init__(self, identity: Identity, group: str, max_ranges: int, skew_ms: int) -> None:
        self.hand = Hand()
        self.desk = Desk(identity.window_ms)
        self.books = ConsumerBooks(identity, group, max_ranges, skew_ms)

    def handed_out(self, place: Place, runs: Iterable[SeenRun]) -> None:
        """The connector is about to hand these out."""
        runs = list(runs)
        for run in self.hand.take(place, runs):
            self.books.leave_out(run)
        if runs:
            self.books.come_upon(place, runs[0].offset)

    def done_before(self, positions: Mapping[Place, int], now_ms: int) -> None:
        """All that was handed out before these offsets is processed."""
        for place, run in self.hand.done(positions):
            self.books.add(run, place, now_ms)
        self.books.come_to(positions)

    def fetched(self, message: Told) -> None:
        """The application has this message and is not done with it."""
        self._come_upon(message)
        self.desk.put(message)

    def told(self, message: Told, outcome: Outcome, now_ms: int) -> None:
        """The application says that it is done with this message."""
        self._come_upon(message)
        self._add(self.desk.done(message, outcome), now_ms)

    def settle(self, now_ms: int) -> None:
        """Take into the books what is done."""
        self._add(self.desk.settle(), now_ms)
        self.books.come_to(self.desk.positions)

    def released(self, place: Place, hold: Hold, now_ms: int) -> None:
        """The partition is somebody else's now, who gets what is not stored again."""
        self._end_of(place, hold, now_ms)
        self.hand.drop([place])
        self.desk.release(place)

    def truncated(self, place: Place, offset: int, now_ms: int) -> None:
        """The log was cut there. What was handed out before is taken to be processed: nobody is
        given it again, and no offset that is stored will ever stand for it."""
        for run in self.hand.cut(place, offset):
            self.books.add(run, place, now_ms)
        self.books.cut(place, offset)

    def last_report(self, holds: Mapping[Place, Hold], now_ms: int) -> list[AuditEvent]:
        """Of a run that has died: all that it processed, and nothing more will come. How far it has
        come is not told again, since others have moved on in these partitions."""
        self._add(self.desk.settle(), now_ms)
        for place in self.hand.places:
            self._end_of(place, holds.get(place, Hold()), now_ms)
        return self.books.report(now_ms, 0, closed=True, progress=False)

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp of what is not done; None: there is nothing."""
        lows = [low for low in (self.hand.oldest, self.desk.oldest) if low is not None]
        return min(lows, default=None)

    def _end_of(self, place: Place, hold: Hold, now_ms: int) -> None:
        """What was handed out before is processed; of what is in hand nobody will know."""
        for _, run in self.hand.done({place: hold.done}):
            self.books.add(run, place, now_ms)
        for _, run in self.hand.done({place: hold.behind}):
            self.books.doubt(run, now_ms)

    def _come_upon(self, message: Told) -> None:
        if message.offset >= 0:
            self.books.come_upon(message.place, message.offset)

    def _add(self, done: Collection[Done], now_ms: int) -> None:
        for one in done:
            self.books.add(one.run, one.place, now_ms, one.outcome)
