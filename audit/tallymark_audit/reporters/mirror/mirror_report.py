"""The audit in a mirror: it reports to the target's audit topic how far the mirror has copied, and
what it could not copy and why.

A mirror makes no claims: what the source's collector counted is the claim, what the target's
collector counted is the observation. The reports say that the mirror lives, and up to which offset
each partition of the source is copied: records behind that offset are under way, records before it
that are not in the target are lost. They also name the gaps in the source's log: offsets that were
deleted before they were copied, cut off after, or never held a message. Verdicts about records that
have arrived do not wait for these reports.

Unlike a producer, the reporter is the *mirror*, whichever process runs it: a mirror that was killed
and started again is the same reporter. So the next run continues the reports of the last one, and
no reporter stays silent for ever. Two rules make that possible:

* a run numbers its events from its start in nanoseconds on, so later runs have higher numbers;
* ``covers_from`` is 0: without claims there is nothing in an earlier event to wait for.

A gap, and the progress of a partition, is in every report until one that holds it was acknowledged.
Every tenth report holds all partitions, in case the topic has lost one.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.events.audit_topic import AuditTopic
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import MAX_TEXT, AuditEvent, Copied, Gap
from tallymark_audit.judge.copy_progress import STOPPED
from tallymark_audit.model.cells import FOREVER
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.producer.producer_run import MAX_WAITING

log: Final = logging.getLogger(__name__)
GAPS_PER_EVENT: Final = 2000
"""Keeps an event below some 200 kB; more gaps make more events."""
MAX_GAPS: Final = 100_000
"""Kept while the target takes no reports; more gaps are counted and logged."""
REPEAT_ALL: Final = 10
"""One report in so many holds all partitions."""


@dataclass(slots=True)
class _Contents:
    """What one event holds, so that it can be reported again."""

    gaps: tuple[Gap, ...] = ()
    copied: tuple[Copied, ...] = ()


class MirrorContextLike(Protocol):
    """The part of :class:`tallymark.mirror.MirrorContext` that is used; the audit may not import
    that class."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def deployment(self) -> Deployment: ...
    @property
    def publish(self) -> Callable[[str, bytes | None, bytes | None, int | None], Future[Any]]: ...
    @property
    def create_topic(self) -> Callable[[str, int, Mapping[str, str]], Future[bool]]: ...


class MirrorReport:
    """Reports one mirror; a :class:`tallymark.mirror.MirrorObserver`. Times in ms."""

    def __init__(self) -> None:
        self._context: MirrorContextLike | None = None
        self._lock = threading.Lock()
        self._started_ns = time.time_ns()
        self._next_event = self._started_ns
        self._next_report = 0
        self._gaps: dict[Gap, None] = {}
        self._passed: dict[TopicPartition, Copied] = {}
        """The progress of the partitions that this process has, or had last."""
        self._unreported: set[TopicPartition] = set()
        self._ours: set[TopicPartition] = set()
        """The partitions that the mirror reported since the last tick."""
        self._records: Counter[TopicPartition] = Counter()
        self._reports = 0
        self._unacknowledged: dict[int, _Contents] = {}
        """Events that are published and not acknowledged, by number."""
        self._left_out = 0
        self._topic: AuditTopic | None = None
        self._troubled = False

    @property
    def waiting(self) -> int:
        """The number of gaps that are not known to be on the audit topic."""
        with self._lock:
            return len(self._gaps) + sum(
                len(contents.gaps) for contents in self._unacknowledged.values()
            )

    def attach(self, context: MirrorContextLike) -> None:
        """Begin to report."""
        self._context = context
        retention_ms = context.deployment.audit.retention_ms
        self._topic = AuditTopic(context.create_topic, retention_ms)
        self._topic.ready(0)  # made now, so that a short run has it at its end

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        """Only counted: the target's collector sees the records themselves."""
        with self._lock:
            self._records[topic, partition] += last_offset - first_offset + 1

    def on_passed(self, topic: str, partition: int, offset: int, topic_id: str) -> None:
        """Goes into the next report, if it has changed."""
        place = (topic, partition)
        with self._lock:
            self._ours.add(place)
            known = self._passed.get(place)
            if known and (known.through_offset, known.topic_id) == (offset, topic_id):
                return
            self._passed[place] = Copied(
                topic,
                partition,
                self._target_topic(topic),
                topic_id[:MAX_TEXT],
                offset,
                self._records[place],
            )
            self._unreported.add(place)

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        """Goes into the report of the next tick. An empty gap is left out: that a topic was made
        again (``recreated``) is visible by its id, and to the source's own collector."""
        if to_offset <= from_offset:
            return
        gap = Gap(topic, partition, from_offset, to_offset - 1, reason, now_ms())
        with self._lock:
            last = next(reversed(self._gaps), None)
            if last is not None and _goes_on(last, gap):  # one, however many batches it had
                del self._gaps[last]
                gap = replace(gap, first_offset=last.first_offset)
            if len(self._gaps) < MAX_GAPS:
                self._gaps[gap] = None
            else:
                self._left_out += 1

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report if there are gaps, or if the report interval has passed."""
        with self._lock:
            due = bool(self._gaps) or now_ms >= self._next_report
            if not due or len(self._unacknowledged) >= MAX_WAITING or not self._ready(now_ms):
                return
            self._next_report = now_ms + self._open.deployment.audit.report_interval_ms
            through = now_ms if oldest_pending_ms is None else min(now_ms, oldest_pending_ms)
            events = self._events(now_ms, through, closed=False)
        self._publish(events, now_ms)

    def on_close(self, now_ms: int) -> None:
        """The last report of this run. Another run of the mirror opens it again."""
        with self._lock:
            if not self._ready(now_ms):  # nothing was ever reported there, so nothing is open
                if self._gaps:
                    log.warning("the target has no %s: %d gaps", AUDIT_TOPIC, len(self._gaps))
                return
            events = self._events(now_ms, FOREVER, closed=True)
        self._publish(events, now_ms)

    @property
    def _open(self) -> MirrorContextLike:
        if self._context is None:
            raise RuntimeError("the report is not attached to a mirror")
        return self._context

    def _ready(self, now_ms: int) -> bool:
        return self._topic is not None and self._topic.ready(now_ms)

    def _target_topic(self, topic: str) -> str:
        """The name of the topic in the target, by the settings of this mirror."""
        context = self._open
        for mirror in context.deployment.mirrors:
            if (mirror.source, mirror.target) == (context.source, context.target):
                return mirror.target_topic(topic)
        return topic

    def _events(self, now_ms: int, through: int, closed: bool) -> list[AuditEvent]:
        """The report, in as many events as it takes."""
        gaps, self._gaps = list(self._gaps), {}
        if self._left_out:
            log.warning("%d more gaps of the mirror are not reported", self._left_out)
            self._left_out = 0
        if self._reports % REPEAT_ALL == 0 or closed:
            self._unreported |= self._ours & self._passed.keys()
        self._reports += 1
        copied = [self._passed[place] for place in sorted(self._unreported)]
        self._unreported, self._ours = set(), set()
        contents = [
            _Contents(
                tuple(gaps[at : at + GAPS_PER_EVENT]), tuple(copied[at : at + GAPS_PER_EVENT])
            )
            for at in range(0, max(len(gaps), len(copied)), GAPS_PER_EVENT)
        ]
        return [self._event(now_ms, through, closed, some) for some in contents or [_Contents()]]

    def _event(self, now_ms: int, through: int, closed: bool, contents: _Contents) -> AuditEvent:
        context, number = self._open, self._next_event
        self._next_event += 1
        self._unacknowledged[number] = contents
        return AuditEvent(
            kind="mirror",
            tier="mirror",
            reporter=f"mirror-{context.source}-to-{context.target}",
            server=socket.gethostname()[:MAX_TEXT],
            application=context.client_id[:MAX_TEXT],
            instance="",
            event_number=number,
            covers_from=0,
            started_at=self._started_ns // 1_000_000,
            emitted_at=now_ms,
            window_ms=context.deployment.audit.window_ms,
            complete_through=through,
            closed=closed,
            gaps=contents.gaps,
            copied=contents.copied,
        )

    def _publish(self, events: list[AuditEvent], now_ms: int) -> None:
        for event in events:
            future = self._open.publish(
                AUDIT_TOPIC, event.reporter.encode(), encode_event(event), now_ms
            )
            future.add_done_callback(partial(self._published, event.event_number))

    def _published(self, number: int, future: Future[Any]) -> None:
        failed = future.cancelled() or future.exception() is not None
        with self._lock:
            contents = self._unacknowledged.pop(number, _Contents())
            if not failed:
                self._troubled = False
                return
            self._gaps = dict.fromkeys(contents.gaps) | self._gaps
            self._unreported |= {(one.topic, one.partition) for one in contents.copied}
            if not self._troubled:
                self._troubled = True
                why = "cancelled" if future.cancelled() else repr(future.exception())
                log.warning("a report of the mirror could not be published, it is kept: %s", why)


def default_observer() -> MirrorReport:
    """The observer that every mirror gets; the settings come with the mirror's context."""
    return MirrorReport()


def _goes_on(last: Gap, gap: Gap) -> bool:
    """Whether the second gap continues the first one, for the same reason. A mirror that is stopped
    reports that at one offset, which is never joined."""
    if gap.reason == STOPPED:
        return False
    same = (last.topic, last.partition, last.reason) == (gap.topic, gap.partition, gap.reason)
    return same and last.last_offset + 1 == gap.first_offset
