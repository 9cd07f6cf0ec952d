"""The audit in a mirror: reports what it could not copy, and why, to the target's audit topic.

A mirror makes no claims: what the source's collector counted is the claim, what the target's
counted is the observation. Its reports say that it lives, and name the gaps in the source's log:
offsets that were deleted before they were copied, cut off after, or never held a message. Verdicts
do not wait for it (:func:`tallymark_audit.store.facts.reporters_of` asks for producers).

Unlike a producer, the reporter is the *mirror*, whichever process runs it: a mirror that was killed
is not another one when it comes back, so the next run continues the reports of the last and none
is left behind that is silent for ever. Two things make that hold:

* a run numbers its events from its start in nanoseconds on, so later runs have higher numbers;
* ``covers_from`` is 0: without claims there is nothing in an earlier event to wait for.

A gap is told in every report until one that holds it was acknowledged.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Protocol

from tallymark.deployment import Deployment
from tallymark.errors import CODES, KafkaError
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.events import FOREVER, MAX_TEXT, AuditEvent, Gap, encode_event
from tallymark_audit.producer_run import MAX_WAITING, RETRY_MS, TOPIC_CONFIGS

log: Final = logging.getLogger(__name__)
GAPS_PER_EVENT: Final = 2000
"""Keeps an event below some 200 kB; more gaps make more events."""
MAX_GAPS: Final = 100_000
"""Kept while the target does not take reports; what comes on top is counted and logged."""


class MirrorContextLike(Protocol):
    """What is used of :class:`tallymark.mirror.MirrorContext`, which is above the audit's reach."""

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
        self._told: dict[int, tuple[Gap, ...]] = {}
        """Gaps of the events that are published and not acknowledged, by event number."""
        self._left_out = 0
        self._topic: _Topic | None = None
        self._troubled = False

    @property
    def waiting(self) -> int:
        """How many gaps are not known to be on the audit topic."""
        with self._lock:
            return len(self._gaps) + sum(len(gaps) for gaps in self._told.values())

    def attach(self, context: MirrorContextLike) -> None:
        """Begin to report."""
        self._context = context
        self._topic = _Topic(context)
        self._topic.ready(0)  # asked for now, so that a short run finds it at its end

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        """Not reported: an event has no place for it, and the target's collector counts what
        arrived. What was not copied is what nobody else can tell."""

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        """To be told with the next tick. An empty gap (``recreated``) says how far it came."""
        gap = Gap(topic, partition, from_offset, to_offset - 1, reason, _now_ms())
        with self._lock:
            if len(self._gaps) < MAX_GAPS:
                self._gaps[gap] = None
            else:
                self._left_out += 1

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """Report if there are gaps, or if it is time for a sign of life."""
        with self._lock:
            due = bool(self._gaps) or now_ms >= self._next_report
            if not due or len(self._told) >= MAX_WAITING or not self._ready(now_ms):
                return
            self._next_report = now_ms + self._open.deployment.audit.report_interval_ms
            through = now_ms if oldest_pending_ms is None else min(now_ms, oldest_pending_ms)
            events = self._events(now_ms, through, closed=False)
        self._publish(events, now_ms)

    def on_close(self, now_ms: int) -> None:
        """The last report of this run. Another run of the mirror opens it again."""
        with self._lock:
            if not self._ready(now_ms):  # nothing was ever told there, so nothing is left open
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

    def _events(self, now_ms: int, through: int, closed: bool) -> list[AuditEvent]:
        """The report, in as many events as its gaps take."""
        gaps, self._gaps = list(self._gaps), {}
        if self._left_out:
            log.warning("%d more gaps of the mirror are not reported", self._left_out)
            self._left_out = 0
        portions = [gaps[at : at + GAPS_PER_EVENT] for at in range(0, len(gaps), GAPS_PER_EVENT)]
        return [self._event(now_ms, through, closed, tuple(some)) for some in portions or [[]]]

    def _event(self, now_ms: int, through: int, closed: bool, gaps: tuple[Gap, ...]) -> AuditEvent:
        context, number = self._open, self._next_event
        self._next_event += 1
        self._told[number] = gaps
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
            gaps=gaps,
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
            gaps = self._told.pop(number, ())
            if not failed:
                self._troubled = False
                return
            self._gaps = dict.fromkeys(gaps) | self._gaps
            if not self._troubled:
                self._troubled = True
                why = "cancelled" if future.cancelled() else repr(future.exception())
                log.warning("a report of the mirror could not be published, it is kept: %s", why)


class _Topic:
    """The topic that reports go to: made where it is not, tried again while it cannot be."""

    def __init__(self, context: MirrorContextLike) -> None:
        self._context = context
        self._there = False
        self._asked: Future[bool] | None = None
        self._retry_at = 0

    def ready(self, now_ms: int) -> bool:
        """Whether the topic is there. Does not wait."""
        if self._there:
            return True
        if self._asked is None and now_ms >= self._retry_at:
            self._asked = self._context.create_topic(AUDIT_TOPIC, 1, TOPIC_CONFIGS)
        if self._asked is not None and self._asked.done():
            self._there = _is_there(self._asked)
            self._asked, self._retry_at = None, now_ms + RETRY_MS
        return self._there


def _is_there(asked: Future[bool]) -> bool:
    error = None if asked.cancelled() else asked.exception()
    exists = isinstance(error, KafkaError) and error.code == CODES["TOPIC_ALREADY_EXISTS"]
    if not asked.cancelled() and (error is None or exists):
        return True
    log.warning("the topic %s cannot be made, will try again: %s", AUDIT_TOPIC, error)
    return False


def default_observer() -> MirrorReport:
    """The observer that every mirror gets; the settings come with the mirror's context."""
    return MirrorReport()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
