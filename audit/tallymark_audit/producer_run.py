"""One run of one audited producer: keeps its books and publishes them.

Called from the producer's I/O thread, and by the futures of what it publishes.
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

from tallymark.client.producing.interceptors import BatchTally, ProducerContext
from tallymark.errors import CODES, KafkaError
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.events import AuditEvent, encode_event
from tallymark_audit.journal.orphans import Replay
from tallymark_audit.journal.writer import Journal
from tallymark_audit.tally import Identity, Outcome, Run, runs_of

log: Final = logging.getLogger(__name__)
RETENTION_MS: Final = 35 * 24 * 3600 * 1000
"""Of the audit topic: longer than anybody reconciles back."""
TOPIC_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS)}
RETRY_MS: Final = 5000
MAX_WAITING: Final = 3
"""Reports published and not acknowledged, beyond which no more are made: they would only repeat."""
KEEP_MS: Final = 60_000
"""How long a cell at rest is remembered, so that its events can be repeated if a log is cut."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What an interceptor is made with; times in ms."""

    window_ms: int
    journal_dir: Path | None
    report_interval_ms: int
    skew_ms: int


class ProducerRun:
    """The audit of one run. See :class:`tallymark_audit.interceptor.AuditInterceptor`."""

    def __init__(self, context: ProducerContext, settings: RunSettings) -> None:
        self.context = context
        self.settings = settings
        self._lock = threading.RLock()
        self._started_at = _now_ms()
        self._journal: Journal | None = None
        self._topic = _AuditTopic(context)
        self._last_report = 0
        self._last_offset = -1
        self._replayed = False
        self._troubled = False
        self._unsettled: dict[tuple[str, int, int], Sequence[Run]] = {}

    def accept(self, batch: BatchTally) -> None:
        """On record before the first byte leaves."""
        now = _now_ms()
        with self._lock:
            journal = self._books()
            for run in self._begin(batch):
                count = run.last - run.first + 1
                size = batch.sizes if count == batch.count else batch.sizes * count // batch.count
                journal.accept(
                    run, size, now, 0 if batch.backfill else self._skewed(batch, run, now)
                )
            self._topic.ready(now)  # ask for it now, so that a short run finds it at its end

    def settle(self, batch: BatchTally, outcome: Outcome) -> None:
        """It is known what became of the batch."""
        now = _now_ms()
        with self._lock:
            journal = self._books()
            for run in self._end(batch):
                journal.settle(run.key, outcome, run.first, run.last, now)

    def split(self, batch: BatchTally, parts: Sequence[BatchTally]) -> None:
        """An accepted batch goes on as several."""
        with self._lock:
            self._end(batch)
            for part in parts:
                self._begin(part)

    def tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report when it is time to, with or without news."""
        with self._lock:
            if not self._topic.ready(now_ms):
                return
            self._replay_orphans(now_ms)
            if now_ms - self._last_report < self.settings.report_interval_ms:
                return
            journal = self._books()
            journal.forget(now_ms - max(KEEP_MS, 3 * self.settings.window_ms))
            if journal.tally.waiting < MAX_WAITING:
                self._last_report = now_ms
                self._publish(journal, now_ms, self._complete_through(now_ms, oldest_pending_ms))

    def close(self, now_ms: int) -> None:
        """Publish the last report, which closes the run."""
        with self._lock:
            if self._journal is None:
                return  # it never sent or said anything
            self._topic.ready(now_ms)
            self._publish(self._journal, now_ms, 0, closed=True)

    def _complete_through(self, now_ms: int, oldest_pending_ms: int | None) -> int:
        if self.context.backfill:
            return 0  # its records are of any age: complete only when it closes
        return now_ms if oldest_pending_ms is None else min(now_ms, oldest_pending_ms)

    def _books(self) -> Journal:
        """The books, begun when the cluster is known: a journal is replayed to its own cluster.
        A producer that sends has asked a broker, which told it."""
        if self._journal is None:
            who, cluster = self.context, self.context.cluster_id
            identity = Identity(
                reporter=f"producer-{who.instance.hex()}",
                server=who.server,
                application=who.client_id[:255],
                instance=who.instance.hex(),
                window_ms=self.settings.window_ms,
                started_at=self._started_at,
                acks=who.acks,
                backfill=who.backfill,
            )
            directory = self.settings.journal_dir if cluster else None
            self._journal = Journal(directory, cluster or "", identity)
        return self._journal

    def _begin(self, batch: BatchTally) -> Sequence[Run]:
        first, times = batch.first_sequence, batch.timestamps
        runs = runs_of(batch.topic, batch.partition, first, times, self.settings.window_ms)
        self._unsettled[batch.topic, batch.partition, first] = runs
        return runs

    def _end(self, batch: BatchTally) -> Sequence[Run]:
        return self._unsettled.pop((batch.topic, batch.partition, batch.first_sequence), ())

    def _skewed(self, batch: BatchTally, run: Run, now_ms: int) -> int:
        limit = self.settings.skew_ms
        if now_ms - limit <= run.min_timestamp and run.max_timestamp <= now_ms + limit:
            return 0
        start = run.first - batch.first_sequence
        times = batch.timestamps[start : start + run.last - run.first + 1]
        return sum(1 for timestamp in times if abs(now_ms - timestamp) > limit)

    def _replay_orphans(self, now_ms: int) -> None:
        directory, cluster = self.settings.journal_dir, self.context.cluster_id
        if not self._replayed and directory is not None and cluster is not None:
            self._replayed = True
            Replay(directory, cluster, self.context.publish).start(now_ms)

    def _publish(
        self, journal: Journal, now_ms: int, complete_through: int, closed: bool = False
    ) -> None:
        events = journal.tally.report(now_ms, complete_through, closed)
        journal.reported()
        for event in events:
            future = self.context.publish(
                AUDIT_TOPIC, event.reporter.encode(), encode_event(event), now_ms
            )
            future.add_done_callback(partial(self._published, event))

    def _published(self, event: AuditEvent, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        with self._lock:
            journal = self._books()
            if future.cancelled() or error is not None:
                journal.tally.not_published(event.event_number)
                self._trouble(f"a report could not be published, it is kept: {error!r}")
            else:
                self._troubled = False
                journal.tally.published(event.event_number)
                self._check_offset(journal, getattr(future.result(), "offset", -1))
            if event.closed:
                journal.close(remove=journal.tally.all_told)

    def _check_offset(self, journal: Journal, offset: int) -> None:
        """Offsets only go back when the log was cut, and acknowledged reports went with it."""
        if 0 <= offset <= self._last_offset:
            journal.tally.publish_again()
        self._last_offset = offset

    def _trouble(self, what: str) -> None:
        if not self._troubled:
            self._troubled = True
            log.warning("audit of %s: %s", self.context.client_id, what)


class _AuditTopic:
    """The topic that reports go to: made where it is not, tried again while it cannot be."""

    def __init__(self, context: ProducerContext) -> None:
        self._context = context
        self._there = False
        self._asked: Future[bool] | None = None
        self._retry_at = 0
        self._logged = False

    def ready(self, now_ms: int) -> bool:
        """Whether the topic is there. Does not wait."""
        if self._there or self._context.cluster_id is None:
            return self._there
        if self._asked is None and now_ms >= self._retry_at:
            self._asked = self._context.create_topic(AUDIT_TOPIC, 1, TOPIC_CONFIGS)
        if self._asked is not None and self._asked.done():
            self._there = self._made(self._asked)
            self._asked, self._retry_at = None, now_ms + RETRY_MS
        return self._there

    def _made(self, asked: Future[bool]) -> bool:
        error = Exception("cancelled") if asked.cancelled() else asked.exception()
        exists = isinstance(error, KafkaError) and error.code == CODES["TOPIC_ALREADY_EXISTS"]
        if error is None or exists:
            return True
        if not self._logged:
            self._logged = True
            log.warning("the topic %s cannot be made, will try again: %s", AUDIT_TOPIC, error)
        return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
