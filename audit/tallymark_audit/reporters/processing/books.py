"""The books of one run of a consumer: which records of which producer it has processed. Pure.

A cell is named by the origin of its records (server, instance and partition of their stamps), so
that it can be compared with what the cluster has. The books also hold up to which offset each
partition was processed: records behind that offset are not lost, they are still to be processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.events import AuditEvent, Copied
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.runs import Run, TallyKey
from tallymark_audit.reporters.books.skew import SkewRule
from tallymark_audit.reporters.books.tally import ReporterIdentity, Tally
from tallymark_audit.reporters.books.tally_cell import Outcome

KEEP_MS: Final = 60_000
"""How long a cell at rest is remembered, so that its events can be repeated if a log is cut."""


class ConsumerBooks:
    """Not thread-safe. Times in ms."""

    def __init__(
        self, identity: ReporterIdentity, group: str, max_ranges: int, skew_ms: int
    ) -> None:
        self.group = group
        self.tally = Tally(identity, max_ranges)
        self._skew = SkewRule(skew_ms)
        self._through: dict[TopicPartition, int] = {}
        self._records: dict[TopicPartition, int] = {}
        self.hurried = False
        """A partition is new: report soon, so that the audit knows that it is being processed."""

    def add(
        self,
        run: SeenRun,
        place: TopicPartition,
        now_ms: int,
        outcome: Outcome = Outcome.ACKNOWLEDGED,
    ) -> None:
        """The run, read from ``place``, is processed, or left out on purpose (FILTERED)."""
        self._records[place] = self._records.get(place, 0) + run.count
        key = _key_of(run)
        tally = self.tally
        if not tally.has_room(key):
            self.leave_out(run)
        elif not run.key.stamped:  # can only be counted, whether processed or left out
            tally.note(key, now_ms, unstamped=run.count, malformed=run.malformed)
        else:
            self._add_stamped(key, run, now_ms, outcome)

    def leave_out(self, run: SeenRun) -> None:
        """There is no room for the run: from its time on the books are not complete."""
        self.tally.leave_out(run.count, max(0, run.min_timestamp))

    def doubt(self, run: SeenRun, now_ms: int) -> None:
        """The run was in flight at the end: whether it was processed cannot be known."""
        key = _key_of(run)
        if not run.key.stamped or not self.tally.has_room(key):
            return  # the next consumer is given these records, and reports them
        low, high = run.min_timestamp, run.max_timestamp
        cell = self.tally.cells.get(key)
        known = cell.accepted.among(run.first, run.last) if cell is not None else EMPTY
        for first, last in RangeSet.single(run.first, run.last) - known:
            self.tally.accept(Run(key, first, last, low, high), 0, now_ms)
            self.tally.settle(key, Outcome.IN_DOUBT, first, last, now_ms)

    def starts_at(self, place: TopicPartition, offset: int) -> None:
        """The record at this offset is handed out. If it is the first of the partition, the records
        before it are not this consumer's to process."""
        if place not in self._through:
            self._through[place] = offset
            self.hurried = True

    def processed_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Everything before these offsets is processed. The last call counts: an application that
        seeks back has fewer records processed."""
        self._through |= positions

    def cut(self, place: TopicPartition, offset: int) -> None:
        """The log was cut there: the records that it gets now are not processed yet."""
        if place in self._through:
            self._through[place] = min(offset, self._through[place])

    def report(
        self, now_ms: int, complete_through: int, closed: bool = False, progress: bool = True
    ) -> list[AuditEvent]:
        """The next report, in one event or several; with the ``progress`` of each partition."""
        events = self.tally.report(now_ms, complete_through, closed)
        events = [replace(event, consumer_group=self.group) for event in events]
        self.hurried = False
        if progress:
            events[-1] = replace(events[-1], copied=self._progress())
        return events

    @property
    def progress(self) -> dict[TopicPartition, tuple[int, int]]:
        """Of each partition the offset before which all is processed, and of how many records."""
        return {at: (through, self._records.get(at, 0)) for at, through in self._through.items()}

    @progress.setter
    def progress(self, given: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._through = {place: through for place, (through, _) in given.items()}
        self._records = {place: records for place, (_, records) in given.items()}

    def forgotten(self, now_ms: int) -> list[TallyKey]:
        """The cells that are published and at rest: they may be dropped."""
        tally = self.tally
        gone = tally.at_rest(now_ms - max(KEEP_MS, 3 * tally.identity.window_ms))
        return tally.published_at_rest() if tally.crowded else gone

    def _add_stamped(self, key: TallyKey, run: SeenRun, now_ms: int, outcome: Outcome) -> None:
        tally, first, last = self.tally, run.first, run.last
        cell = tally.cells.get(key)
        settled = cell.settled.get(outcome) if cell is not None else None
        again = settled.among(first, last) if settled is not None else EMPTY
        if again and outcome is Outcome.ACKNOWLEDGED:
            tally.note(key, now_ms, again=again)
        if again.size == run.count:
            return
        low, high = run.min_timestamp, run.max_timestamp
        skewed = run.count if not self._skew.plausible(low, high, now_ms) else 0
        if cell is None or cell.accepted.among(first, last).size < run.count:
            tally.accept(Run(key, first, last, low, high), run.bytes, now_ms, skewed)
        timed = outcome is Outcome.ACKNOWLEDGED and not skewed and low >= 0
        latency = max(0, now_ms - (low + high) // 2) if timed else None
        tally.settle(key, outcome, first, last, now_ms, latency)

    def _progress(self) -> tuple[Copied, ...]:
        return tuple(
            Copied(topic, partition, "", "", offset, self._records.get((topic, partition), 0))
            for (topic, partition), offset in sorted(self._through.items())
        )


def _key_of(run: SeenRun) -> TallyKey:
    key = run.key
    return TallyKey(key.topic, key.partition, key.window, key.server, key.instance)
