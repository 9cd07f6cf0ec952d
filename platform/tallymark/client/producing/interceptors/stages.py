"""Calls the queue interceptors at the stages of a producer's queue; free of cost without any."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.delivery import Delivery
from tallymark.client.producing.interceptors.queue_interceptor import (
    EventHandler,
    EventKind,
    OutgoingRecord,
    QueuedBatch,
    QueueEvent,
    QueueInterceptor,
)

log: Final = logging.getLogger(__name__)

_BATCH_STAGES: Final = (
    "after_dequeue",
    "before_sending",
    "after_sending",
    "retried",
    "acknowledged",
    "failed",
)


class QueueStages:
    """All queue interceptors and the event handler as one. ``errors`` counts what they raised.

    ``records`` says whether there are interceptors for single records, ``batches`` whether there
    are some for batches: the caller checks these first.
    """

    def __init__(
        self, interceptors: Sequence[Any], event_handler: EventHandler | None = None
    ) -> None:
        self.errors = 0
        self._handler = event_handler
        self._logged: set[str] = set()
        mine = [one for one in interceptors if isinstance(one, QueueInterceptor)]
        self._before = _overridden(mine, "before_enqueue")
        self._after = _overridden(mine, "after_enqueue")
        self._last = _overridden(mine, "last_batch_before_close")
        self._stages = {name: _overridden(mine, name) for name in _BATCH_STAGES}
        self.records = bool(self._before or self._after or event_handler)
        self.batches = bool(event_handler or any(self._stages.values()))

    # --- records ----------------------------------------------------------------------------

    def admit(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """What comes out of all ``before_enqueue``; None: one dropped it."""
        found: OutgoingRecord | None = record
        for call in self._before:
            found = call(found)
            if found is None:
                self.event(EventKind.DROPPED, record.topic, -1, 1)
                return None
        return found

    def enqueued(self, record: OutgoingRecord, delivery: Delivery, partition: int) -> None:
        """The record is in its batch."""
        for call in self._after:
            self._call("after_enqueue", call, record, delivery)
        self.event(EventKind.ENQUEUED, record.topic, partition, 1)

    def refused(self, record: OutgoingRecord, delivery: Delivery, error: Exception) -> None:
        """There was no room for the record, and it is not waited for."""
        for call in self._after:
            self._call("after_enqueue", call, record, delivery)
        self.event(EventKind.DROPPED, record.topic, -1, 1, error)

    def last_records(self) -> Iterator[OutgoingRecord]:
        """What the interceptors still want to be sent."""
        for call in self._last:
            found: list[Iterable[OutgoingRecord]] = []
            self._call("last_batch_before_close", lambda call=call, to=found: to.append(call()))
            for records in found:
                yield from records

    # --- batches ----------------------------------------------------------------------------

    def sealed(self, batch: ProducerBatch) -> None:
        """A batch was taken over by the I/O thread."""
        self._stage("after_dequeue", EventKind.SEALED, batch)

    def sending(self, batch: ProducerBatch) -> None:
        """It is about to be written into a request."""
        self._stage("before_sending", None, batch)

    def sent(self, batch: ProducerBatch) -> None:
        """The request was handed to the network."""
        self._stage("after_sending", EventKind.SENT, batch)

    def retried(self, batch: ProducerBatch, error: Exception) -> None:
        """It will be sent again."""
        self._stage("retried", EventKind.RETRIED, batch, error, error=error)

    def acknowledged(self, batch: ProducerBatch, base_offset: int) -> None:
        """It is in the log."""
        self._stage("acknowledged", EventKind.ACKNOWLEDGED, batch, base_offset)

    def failed(self, batch: ProducerBatch, error: Exception, in_doubt: bool) -> None:
        """It is given up."""
        self._stage("failed", EventKind.FAILED, batch, error, in_doubt, error=error)

    def event(
        self,
        kind: EventKind,
        topic: str,
        partition: int,
        count: int,
        error: Exception | None = None,
    ) -> None:
        """Call the event handler."""
        if self._handler is not None:
            event = QueueEvent(kind, topic, partition, count, error)
            self._call("event_handler", self._handler, event)

    def _stage(
        self,
        name: str,
        kind: EventKind | None,
        batch: ProducerBatch,
        *arguments: Any,
        error: Exception | None = None,
    ) -> None:
        if not self.batches:
            return
        calls = self._stages[name]
        if calls:
            view = QueuedBatch(
                batch.topic, batch.partition, batch.count, batch.size, batch.attempts
            )
            for call in calls:
                self._call(name, call, view, *arguments)
        if kind is not None:
            self.event(kind, batch.topic, batch.partition, batch.count, error)

    def _call(self, name: str, call: Callable[..., object], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            self.errors += 1
            if name not in self._logged:
                self._logged.add(name)
                log.exception("%s failed; further failures of it are only counted", name)


def _overridden(interceptors: Sequence[QueueInterceptor], name: str) -> list[Callable[..., Any]]:
    own = getattr(QueueInterceptor, name)
    return [getattr(one, name) for one in interceptors if getattr(type(one), name) is not own]
