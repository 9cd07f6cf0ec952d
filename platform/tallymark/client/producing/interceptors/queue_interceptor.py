"""The stages of a producer's queue, for code that observes, changes or drops records there.

The stages are those of the callback handler of Kafka 0.7, with its names in today's spelling::

    send() ─► before_enqueue ─► [batch] ─► after_enqueue          thread that sends
                                   │
                       after_dequeue (sealed)                      I/O thread from here on
                                   │
             ┌──────────► before_sending ─► after_sending
             │ again               │
             └── retried ◄─────────┼─► acknowledged
                                   └─► failed
    close() ─► last_batch_before_close                             thread that closes

A class derives from :class:`QueueInterceptor` and overrides what it wants; what it leaves alone
costs nothing. It is given to the producer among its ``interceptors`` and may be a
:class:`~tallymark.client.producing.interceptors.producer_interceptor.ProducerInterceptor` as well.
An ``event_handler`` is one function that gets the same as :class:`QueueEvent`.

What they raise is logged once, counted and changes nothing, with one exception: ``before_enqueue``
stands in send(), and what it raises send() raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tallymark.client.producing.delivery import Delivery
    from tallymark.protocol.records.batch import Header


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record on its way into the queue, as send() was called: not encoded, no partition chosen
    unless it was named. Change it with :func:`dataclasses.replace`."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp: int | None = None
    """Milliseconds; None: the moment it is put into its batch."""
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuedBatch:
    """A sealed batch, as the stages of the I/O thread see it. ``size`` in bytes, before compression
    and about; ``attempts`` counts the requests it has left with."""

    topic: str
    partition: int
    count: int
    size: int
    attempts: int


class EventKind(Enum):
    """What may happen in the queue."""

    ENQUEUED = "enqueued"
    """Records were put into a batch."""
    DROPPED = "dropped"
    """A record was not taken in: by an interceptor, or for want of room."""
    SEALED = "sealed"
    SENT = "sent"
    RETRIED = "retried"
    """A batch came back and will be sent again."""
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """``count`` records of ``topic``; ``partition`` -1 when none is chosen; ``error`` for those
    dropped for want of room, retried and failed."""

    kind: EventKind
    topic: str
    partition: int
    count: int
    error: Exception | None = None


EventHandler: TypeAlias = Callable[[QueueEvent], object]
"""Called for ENQUEUED and DROPPED in the thread that sends, else in the I/O thread; be quick."""


class QueueInterceptor:
    """Override what you want to know of; see the module's text for threads and order."""

    def before_enqueue(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """The record to take in: as it is, another one, or None to drop it."""
        return record

    def after_enqueue(self, record: OutgoingRecord, delivery: Delivery) -> None:
        """It is in its batch (or was dropped for want of room: then ``delivery`` has failed)."""

    def after_dequeue(self, batch: QueuedBatch) -> None:
        """The batch is sealed and has been taken out of the partition's queue."""

    def before_sending(self, batch: QueuedBatch) -> None:
        """It is about to be written into a request."""

    def after_sending(self, batch: QueuedBatch) -> None:
        """The request has been handed to the network."""

    def retried(self, batch: QueuedBatch, error: Exception) -> None:
        """It came back, and will be sent again."""

    def acknowledged(self, batch: QueuedBatch, base_offset: int) -> None:
        """It is in the log from ``base_offset`` on; -1: the broker did not say."""

    def failed(self, batch: QueuedBatch, error: Exception, in_doubt: bool) -> None:
        """It is given up. ``in_doubt``: it may be in the log all the same."""

    def last_batch_before_close(self) -> Iterable[OutgoingRecord]:
        """close() was called and the producer still takes records: the last ones to send."""
        return ()
