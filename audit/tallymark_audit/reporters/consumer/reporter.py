"""Publishes a consumer's books: the interceptor of a producer that sends nothing but reports.

That producer has what reporting needs: a thread that calls regularly, the cluster's id, records
that are kept until they are acknowledged, and a close that waits for them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.errors import CODES, KafkaError
from tallymark_audit.events.audit_topic import RETENTION_MS, AuditTopic
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.journal.consumer_writer import ConsumerJournal
from tallymark_audit.reporters.journal.orphans import Replay

log: Final = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.02
MAX_WAITING: Final = 3
"""Reports published and not acknowledged, beyond which no more are made: they would only repeat."""
REPLAY_MS: Final = 10_000
"""How often it looks for journals of dead members of this host."""


class ConsumerReporter:
    """A :class:`~tallymark.client.producing.interceptors.producer_interceptor.ProducerInterceptor`.
    Callers of the journal hold ``lock``. ``journal_dir`` is the folder with the journals of dead
    members. ``oldest`` returns the smallest timestamp (ms) of what is in flight, None: nothing
    is."""

    def __init__(
        self,
        journal: ConsumerJournal,
        oldest: Callable[[], int | None],
        report_interval_ms: int,
        retention_ms: int = RETENTION_MS,
        journal_dir: Path | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self._journal = journal
        self._books = journal.processing.books
        self._journal_dir = journal_dir
        self._replay: Replay | None = None
        self._replay_at = 0
        self._closing: set[int] | None = None
        self._oldest = oldest
        self._interval_ms = report_interval_ms
        self._retention_ms = retention_ms
        self._context: ProducerContext | None = None
        self._topic: AuditTopic | None = None
        self._last_report = 0
        self._last_offset = -1
        self._closed = False
        self._troubled = False

    def attach(self, context: ProducerContext) -> None:
        self._context = context
        self._topic = AuditTopic(context.create_topic, self._retention_ms)

    def on_send(self, batch: BatchTally) -> None:
        """It sends nothing."""

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        """It sends nothing."""

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        """It sends nothing."""

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report if it is time to, with or without changes: a report is a sign of life too."""
        with self.lock:
            if self._closed:
                return
            self._know_cluster(now_ms)
            due = now_ms - self._last_report >= self._interval_ms
            if due or self._books.hurried:
                self._journal.drop(self._books.forgotten(now_ms))
                if self._books.tally.waiting < MAX_WAITING:
                    self.report(now_ms)

    def on_close(self, now_ms: int) -> None:
        """The last report. What is in flight is not processed, and others are given it again."""
        with self.lock:
            self._know_cluster(now_ms)  # a short run may not have looked yet
            self.report(now_ms, closed=True)

    def publish(self, now_ms: int, seconds: float) -> bool:
        """Report now, and wait at most so long for the acknowledgement; returns whether it came."""
        deadline = time.monotonic() + seconds
        with self.lock:
            if self._books.tally.all_published:
                return True
        while not (futures := self.report(now_ms)):  # the topic is being made
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        done, waiting = wait(futures, max(0.0, deadline - time.monotonic()))
        return not waiting and all(not one.cancelled() and one.exception() is None for one in done)

    def report(self, now_ms: int, closed: bool = False) -> Sequence[Future[Any]]:
        """Publish what is known now; nothing while the topic is not there, unless this is the last
        report."""
        with self.lock:
            context, topic = self._context, self._topic
            if context is None or topic is None or not (topic.ready(now_ms) or closed):
                return ()
            oldest = self._oldest()
            through = now_ms if oldest is None else min(now_ms, oldest)
            self._last_report = now_ms
            self._closed = self._closed or closed
            events = self._books.report(now_ms, through, closed)
            self._journal.reported()
            if closed:
                self._closing = {event.event_number for event in events}
            return [self._send(context, event, now_ms) for event in events]

    def _know_cluster(self, now_ms: int) -> None:
        """What needs the cluster's id: this run's journal, and the journals of dead members."""
        cluster = self._context.cluster_id if self._context is not None else None
        if self._context is None or cluster is None:
            return
        self._journal.know(cluster)
        self._journal.mend(now_ms)
        if self._topic is None or not self._topic.ready(now_ms) or self._journal_dir is None:
            return
        if self._replay is None:
            self._replay = Replay(self._journal_dir, cluster, self._context.publish)
        if now_ms >= self._replay_at:
            self._replay_at = now_ms + REPLAY_MS
            self._replay.start(now_ms)

    def _send(self, context: ProducerContext, event: AuditEvent, now_ms: int) -> Future[Any]:
        key = event.reporter.encode()
        future = context.publish(AUDIT_TOPIC, key, encode_event(event), now_ms)
        future.add_done_callback(partial(self._published, event))
        return future

    def _published(self, event: AuditEvent, future: Future[Any]) -> None:
        with self.lock:
            self._settled(event, future)
            if self._closing is not None:
                self._closing.discard(event.event_number)
                if not self._closing:
                    self._journal.close(remove=self._books.tally.all_published)

    def _settled(self, event: AuditEvent, future: Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        tally = self._books.tally
        with self.lock:
            if error is None and not future.cancelled():
                self._troubled = False
                tally.published(event.event_number)
                offset: int = getattr(future.result(), "offset", -1)
                if 0 <= offset <= self._last_offset:
                    tally.publish_again()  # the log was cut, and reports went with it
                self._last_offset = offset
                return
            tally.not_published(event.event_number)
            if isinstance(error, KafkaError) and error.code == CODES["MESSAGE_TOO_LARGE"]:
                tally.too_large()
            if not self._troubled:
                self._troubled = True
                log.warning(
                    "audit of the group %s: a report could not be published, it is kept: %r",
                    self._books.group,
                    error,
                )
