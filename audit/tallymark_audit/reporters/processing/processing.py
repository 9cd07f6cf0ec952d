"""What one run of a consumer has in flight, in its batcher of acknowledgements, and in its books.
Pure.

The journal of a consumer records these calls in order, so that replaying them gives the same books
under the same event numbers. A call for each message would cost too much, so how far the
application is within its records in flight is in the :class:`InFlightMark` of each partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.processing.ack_batcher import AckBatcher, ProcessedRun
from tallymark_audit.reporters.processing.books import ConsumerBooks
from tallymark_audit.reporters.processing.in_flight import InFlight
from tallymark_audit.reporters.processing.messages import ConsumedMessage

ONE: Final = -1


class InFlightMark(NamedTuple):
    """Of one partition: all that was handed out before the offset ``done`` is processed, ``done``
    to ``last`` may be in flight (ONE: only ``done``; less than ``done``: nothing). The connector
    writes it: :mod:`tallymark.client.consuming.marks`; -1: it has written nothing yet."""

    done: int = -1
    last: int = -2

    @property
    def behind(self) -> int:
        """The offset behind what may be in flight."""
        return self.done + 1 if self.last == ONE else max(self.done, self.last + 1)


class Processing:
    """Not thread-safe. Times in ms."""

    def __init__(
        self, identity: ReporterIdentity, group: str, max_ranges: int, skew_ms: int
    ) -> None:
        self.in_flight = InFlight()
        self.ack_batcher = AckBatcher(identity.window_ms)
        self.books = ConsumerBooks(identity, group, max_ranges, skew_ms)

    def handed_out(self, place: TopicPartition, runs: Iterable[SeenRun]) -> None:
        """The connector is about to hand out these runs."""
        runs = list(runs)
        for run in self.in_flight.take(place, runs):
            self.books.leave_out(run)
        if runs:
            self.books.starts_at(place, runs[0].offset)

    def done_before(self, positions: Mapping[TopicPartition, int], now_ms: int) -> None:
        """All that was handed out before these offsets is processed."""
        for place, run in self.in_flight.done(positions):
            self.books.add(run, place, now_ms)
        self.books.processed_before(positions)

    def fetched(self, message: ConsumedMessage) -> None:
        """The application has this message and is not done with it."""
        self._starts_at(message)
        self.ack_batcher.put(message)

    def processed(self, message: ConsumedMessage, outcome: Outcome, now_ms: int) -> None:
        """The application says that it is done with this message."""
        self._starts_at(message)
        self._add(self.ack_batcher.done(message, outcome), now_ms)

    def settle(self, now_ms: int) -> None:
        """Count what was acknowledged one by one."""
        self._add(self.ack_batcher.settle(), now_ms)
        self.books.processed_before(self.ack_batcher.positions)

    def released(self, place: TopicPartition, mark: InFlightMark, now_ms: int) -> None:
        """The partition belongs to another consumer now, which reads again from the committed
        offset."""
        self._end_of(place, mark, now_ms)
        self.in_flight.drop([place])
        self.ack_batcher.release(place)

    def truncated(self, place: TopicPartition, offset: int, now_ms: int) -> None:
        """The log was cut there. What was handed out of the part that is gone counts as processed:
        no consumer is given it again, and no committed offset will ever cover it."""
        for run in self.in_flight.cut(place, offset):
            self.books.add(run, place, now_ms)
        self.books.cut(place, offset)

    def last_report(
        self, marks: Mapping[TopicPartition, InFlightMark], now_ms: int
    ) -> list[AuditEvent]:
        """The report of a run that has died: all that it processed; no report follows. It holds no
        progress, since other consumers have moved on in these partitions."""
        self._add(self.ack_batcher.settle(), now_ms)
        for place in self.in_flight.places:
            self._end_of(place, marks.get(place, InFlightMark()), now_ms)
        return self.books.report(now_ms, 0, closed=True, progress=False)

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) of what is not processed; None: everything is."""
        lows = [low for low in (self.in_flight.oldest, self.ack_batcher.oldest) if low is not None]
        return min(lows, default=None)

    def _end_of(self, place: TopicPartition, mark: InFlightMark, now_ms: int) -> None:
        """Count what was handed out before the mark; what is in flight is in doubt."""
        for _, run in self.in_flight.done({place: mark.done}):
            self.books.add(run, place, now_ms)
        for _, run in self.in_flight.done({place: mark.behind}):
            self.books.doubt(run, now_ms)

    def _starts_at(self, message: ConsumedMessage) -> None:
        if message.offset >= 0:
            self.books.starts_at(message.place, message.offset)

    def _add(self, done: Collection[ProcessedRun], now_ms: int) -> None:
        for one in done:
            self.books.add(one.run, one.place, now_ms, one.outcome)
