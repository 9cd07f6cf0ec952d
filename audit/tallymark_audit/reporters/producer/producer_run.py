"""One run of one audited producer: keeps its books and publishes them.

It is called from the producer's I/O thread, and by the futures of the events that it publishes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.clock import now_ms
from tallymark_audit.events.audit_topic import RETENTION_MS, AuditTopic, is_too_large
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import MAX_TEXT, AuditEvent
from tallymark_audit.model.cells import Block
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.books.runs import Run, runs_of
from tallymark_audit.reporters.books.skew import SkewRule
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal.disk import Disk
from tallymark_audit.reporters.journal.orphans import Replay
from tallymark_audit.reporters.journal.writer import Journal
from tallymark_audit.reporters.producer.run_transaction import RunTransaction

log: Final = logging.getLogger(__name__)
MAX_WAITING: Final = 3
"""With so many reports unacknowledged no more are made: they would only repeat these."""
KEEP_MS: Final = 60_000
"""How long a cell at rest is kept, so that its events can be repeated if a log is cut."""
FLUSH_MS: Final = 200
"""A flush reports at once, but not sooner than this after the last report, so that a flush after
every record does not make a report for each; the next tick reports then."""
LONG_MS: Final = 50
REST_IN_TROUBLE: Final = 9
"""A report takes time of the producer's thread, some 30 µs a cell. After a long one (LONG_MS) the
next is made only after the same time again, or after so many times that while reports fail."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What an interceptor is made with; times in ms. See the deployment's ``AuditSettings``."""

    window_ms: int
    journal_dir: Path | None
    report_interval_ms: int
    skew_ms: int
    max_ranges: int = 10_000
    content_check: bool = False
    retention_ms: int = RETENTION_MS


@dataclass(frozen=True, slots=True)
class RunTroubles:
    """What went wrong with the audit of a run, so far. ``reports_failed``: events that could not be
    published; later ones replace them. ``journals_lost``: how often the disk refused the journal.
    ``journals_damaged``: journals of dead runs that could not be read. ``records_left_out``: not
    claimed for want of room. ``cells_counted``: open cells that are only counted and hashed, since
    they had too many ranges."""

    reports_failed: int = 0
    journals_lost: int = 0
    journals_damaged: int = 0
    records_left_out: int = 0
    cells_counted: int = 0


class ProducerRun:
    """The audit of one run. See
    :class:`tallymark_audit.reporters.producer.interceptor.AuditInterceptor`."""

    def __init__(
        self, context: ProducerContext, settings: RunSettings, disk: Disk | None = None
    ) -> None:
        self.context = context
        self.settings = settings
        self._disk = disk
        self._skew = SkewRule(settings.skew_ms, exempt=context.backfill)
        self._timed = context.acks != 0 and not context.backfill
        self._lock = threading.RLock()
        self._started_at = now_ms()
        self._journal: Journal | None = None
        self._topic = AuditTopic(context.create_topic, settings.retention_ms)
        self._last_report = 0
        self._hurried = False
        self._rested_at = 0
        self._last_offset = -1
        self._replay: Replay | None = None
        self._troubled = False
        self._reports_failed = 0
        self._left_out = 0
        self._closing: set[int] | None = None
        self._transaction = RunTransaction()
        self._unsettled: dict[tuple[str, int, int], Sequence[Run]] = {}

    def accept(self, batch: BatchTally) -> None:
        """Claim the batch's records; called before their first byte is sent."""
        now = now_ms()
        with self._lock:
            journal = self._journal or self._books()
            self._transaction.accepting(journal)
            runs = self._runs(batch)
            kept = [run for run in runs if self._accept(journal, batch, run, now)]
            self._unsettled[batch.topic, batch.partition, batch.first_sequence] = kept
            if len(kept) < len(runs) and not self._left_out:
                self._left_out = journal.tally.left_out
                self._warn("too many windows at a time: some records are not claimed")
            self._ready(now)  # make the topic now, so that a short run has it at its end

    def settle(self, batch: BatchTally, outcome: Outcome) -> None:
        """The batch ended with this outcome."""
        with self._lock:
            for run in self._end(batch):
                done = outcome is Outcome.ACKNOWLEDGED
                blocks = self._blocks(batch, run) if done else ()
                if self._transaction.holds(outcome):
                    self._transaction.hold(run, outcome, blocks)
                else:
                    self._settle(run, outcome, blocks)

    def transaction_is(self, stage: TransactionStage) -> None:
        """The run's transaction has come that far."""
        with self._lock:
            self._transaction.moved(stage, self._journal, self._settle)

    def split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None:
        """An accepted batch is sent on as several."""
        with self._lock:
            kept = self._end(batch)
            for part in parts:
                place = part.topic, part.partition, part.first_sequence
                self._unsettled[place] = _shared(kept, self._runs(part))

    def tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report when it is time to, with or without changes."""
        with self._lock:
            if self._closing is not None:
                return  # a report after the closing one would open the run again
            journal = self._journal
            if journal is not None:
                journal.mend(now_ms)
            if not self._ready(now_ms):
                return
            self._publish_orphans(now_ms)
            due = now_ms - self._last_report >= self.settings.report_interval_ms
            crowded = journal is not None and journal.tally.crowded and not self._troubled
            if (due or self._hurried or crowded) and now_ms >= self._rested_at:
                self._report(now_ms, oldest_pending_ms)

    def flush(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """All that was sent is settled: report it, now or with the next tick. The application does
        not wait for that."""
        with self._lock:
            if self._closing is not None:
                return  # see tick()
            if self._journal is None or not self._journal.tally.has_changed:
                return
            self._hurried = True
            soon = now_ms - self._last_report < FLUSH_MS or now_ms < self._rested_at
            if not soon and self._ready(now_ms):
                self._report(now_ms, oldest_pending_ms)

    def close(self, now_ms: int) -> None:
        """Publish the last report, which closes the run."""
        with self._lock:
            if self._journal is None:
                return  # it has sent and reported nothing
            self._transaction.over(self._journal, self._settle)
            self._ready(now_ms)
            self._publish(self._journal, now_ms, 0, closed=True)

    @property
    def troubles(self) -> RunTroubles:
        """What went wrong so far."""
        with self._lock:
            journal = self._journal
            damaged = len(self._replay.set_aside) if self._replay else 0
            if journal is None:
                return RunTroubles(self._reports_failed, journals_damaged=damaged)
            counted = sum(cell.summary is not None for cell in journal.tally.cells.values())
            left_out = journal.tally.left_out
            return RunTroubles(self._reports_failed, journal.losses, damaged, left_out, counted)

    def _accept(self, journal: Journal, batch: BatchTally, run: Run, now_ms: int) -> bool:
        count = run.last - run.first + 1
        size = batch.sizes if count == batch.count else batch.sizes * count // batch.count
        skewed = 0
        if not self._skew.plausible(run.min_timestamp, run.max_timestamp, now_ms):
            skewed = self._skew.count(batch.timestamps[_slice(batch, run)], now_ms)
        return journal.accept(run, size, now_ms, skewed)

    def _latency(self, run: Run, now_ms: int) -> int | None:
        """From the middle of the run's timestamps to now (ms); None where that has no meaning."""
        if not self._timed:
            return None
        latency = now_ms - (run.min_timestamp + run.max_timestamp) // 2
        return max(0, latency) if abs(latency) <= self._skew.limit_ms else None

    def _settle(self, run: Run, outcome: Outcome, blocks: Sequence[Block]) -> None:
        journal, now = self._books(), now_ms()
        done = outcome is Outcome.ACKNOWLEDGED
        latency = self._latency(run, now) if done else None
        journal.settle(run.key, outcome, run.first, run.last, now, latency)
        if done and blocks:
            journal.fold(run.key, blocks)

    def _blocks(self, batch: BatchTally, run: Run) -> Sequence[Block]:
        """What the content check keeps of the records, while they can be looked at."""
        if not self.settings.content_check or batch.values is None:
            return ()
        some = _slice(batch, run)
        keys = batch.keys[some] if batch.keys is not None else None
        return blocks_of(run.first, keys, batch.values[some])

    def _report(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        journal = self._books()
        journal.drop(journal.tally.at_rest(now_ms - max(KEEP_MS, 3 * self.settings.window_ms)))
        if journal.tally.crowded:
            journal.drop(journal.tally.published_at_rest())
        if journal.tally.waiting < MAX_WAITING:
            self._last_report = now_ms
            self._hurried = False
            began = time.thread_time_ns()
            self._publish(journal, now_ms, self._complete_through(now_ms, oldest_pending_ms))
            took_ms = (time.thread_time_ns() - began) // 1_000_000
            if took_ms >= LONG_MS:
                rest = took_ms * (REST_IN_TROUBLE if self._troubled else 1)
                self._rested_at = now_ms + took_ms + rest

    def _complete_through(self, now_ms: int, oldest_pending_ms: int | None) -> int:
        if self.context.backfill:
            return 0  # its records have any timestamp: complete only when it closes
        waiting = (oldest_pending_ms, self._transaction.oldest)
        return min(now_ms, *(now_ms if at is None else at for at in waiting))

    def _books(self) -> Journal:
        """The books. They begin with the first batch, when a broker has returned the cluster's id,
        since a journal is published to its own cluster."""
        if self._journal is None:
            who, cluster = self.context, self.context.cluster_id
            identity = ReporterIdentity(
                reporter=f"producer-{who.instance.hex()}",
                server=who.server,
                application=who.client_id.replace("\0", "")[:MAX_TEXT],
                instance=who.instance.hex(),
                window_ms=self.settings.window_ms,
                started_at=self._started_at,
                acks=who.acks,
                backfill=who.backfill,
            )
            directory = self.settings.journal_dir if cluster else None
            self._journal = Journal(
                directory, cluster or "", identity, self.settings.max_ranges, self._disk
            )
        return self._journal

    def _runs(self, batch: BatchTally) -> Sequence[Run]:
        first, times, window_ms = batch.first_sequence, batch.timestamps, self.settings.window_ms
        return runs_of(batch.topic, batch.partition, first, times, window_ms, batch.span)

    def _end(self, batch: BatchTally) -> Sequence[Run]:
        return self._unsettled.pop((batch.topic, batch.partition, batch.first_sequence), ())

    def _ready(self, now_ms: int) -> bool:
        return self.context.cluster_id is not None and self._topic.ready(now_ms)

    def _publish_orphans(self, now_ms: int) -> None:
        directory, cluster = self.settings.journal_dir, self.context.cluster_id
        if self._replay is None and directory is not None and cluster is not None:
            self._replay = Replay(directory, cluster, self.context.publish)
            self._replay.start(now_ms)

    def _publish(
        self, journal: Journal, now_ms: int, complete_through: int, closed: bool = False
    ) -> None:
        events = journal.tally.report(now_ms, complete_through, closed)
        journal.reported()
        if closed:
            self._closing = {event.event_number for event in events}
        for event in events:
            try:
                future = self.context.publish(
                    AUDIT_TOPIC, event.reporter.encode(), encode_event(event), now_ms
                )
            except Exception as error:  # the report failed: do not wait for it
                future = Future()
                future.set_exception(error)
            future.add_done_callback(partial(self._published, event))

    def _published(self, event: AuditEvent, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            journal = self._books()
            if future.cancelled() or error is not None:
                self._not_published(journal, event, error)
            else:
                self._troubled = False
                journal.tally.published(event.event_number)
                self._check_offset(journal, getattr(future.result(), "offset", -1))
            if self._closing is not None:
                self._closing.discard(event.event_number)
                if not self._closing:
                    journal.close(remove=journal.tally.all_published)

    def _not_published(
        self, journal: Journal, event: AuditEvent, error: BaseException | None
    ) -> None:
        self._reports_failed += 1
        first = journal.tally.not_published(event.event_number)
        if first and is_too_large(error):
            journal.tally.too_large()
        if not self._troubled:
            self._troubled = True
            self._warn(f"a report could not be published, it is kept: {error!r}")

    def _check_offset(self, journal: Journal, offset: int) -> None:
        """Offsets go back only when the log was cut, and acknowledged reports were lost with it."""
        if 0 <= offset <= self._last_offset:
            journal.tally.publish_again()
        self._last_offset = offset

    def _warn(self, what: str) -> None:
        log.warning("audit of %s: %s", self.context.client_id, what)


def _slice(batch: BatchTally, run: Run) -> slice:
    """Where the run's records are in the batch."""
    return slice(run.first - batch.first_sequence, run.last - batch.first_sequence + 1)


def _shared(kept: Sequence[Run], parts: Sequence[Run]) -> Sequence[Run]:
    """The runs of a part of a batch that lie in one of the whole batch that was accepted."""
    return [part for part in parts if any(run.first <= part.first <= run.last for run in kept)]
