"""Interceptors of a producer, per batch; the audit is one. Those that may also change and drop
records, at the stages of the queue, are :mod:`.queue_interceptor`.

An object with the methods of :class:`ProducerInterceptor` is called for every batch that was
accepted, acknowledged or lost. All calls but ``attach`` come from the producer's one I/O thread,
one at a time and in this order for each batch::

    on_send ──► on_acknowledged
           └──► on_failed

A method ``on_flush(now_ms, oldest_pending_ms)``, if there is one, is called at the end of every
flush(), when all that was sent before it is settled; arguments as in ``on_tick``. flush() does not
wait for what is published then.

A batch that the broker finds too large goes on as two halves. A method
``on_split(batch, parts)``, if there is one, is called then. The ends of the parts are reported in
both cases.

A method ``on_transaction(stage)``, if there is one, is called as transactions begin and end
(:mod:`.transaction_stage`): once for each stage, with the end after all batches of the transaction
were acknowledged or have failed. What was acknowledged in it counts only once it is COMMITTED.

They must be short and must not wait for the producer (``publish`` and ``create_topic`` return
futures). What they raise is logged once, counted, and changes nothing for the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from tallymark.client.producing.batches.tally import BatchTally

ENTRY_POINTS: Final = "tallymark.interceptors"
"""name = module:factory, factory() -> ProducerInterceptor."""


@dataclass(frozen=True, slots=True)
class ProducerContext:
    """What an interceptor learns of its producer, and may ask of it.

    ``publish(topic, key, value, timestamp_ms | None)`` sends a record of the interceptor's own to
    the same cluster, neither stamped nor tallied; its future yields RecordMetadata.
    ``create_topic(name, partitions, configs)`` yields True when it made the topic, False when it
    was there. Neither blocks; never wait for their futures inside a call from the producer.
    """

    instance: bytes
    server: str
    client_id: str
    acks: int
    """-1 (all), 1 or 0."""
    backfill: bool
    publish: Callable[[str, bytes | None, bytes | None, int | None], Future[Any]]
    create_topic: Callable[[str, int, Mapping[str, str]], Future[bool]]
    read_cluster_id: Callable[[], str | None]

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster; None until a broker has reported it."""
        return self.read_cluster_id()


@runtime_checkable
class ProducerInterceptor(Protocol):
    """The calls; see the module's text for threads and order. Times are wall-clock milliseconds."""

    def attach(self, context: ProducerContext) -> None:
        """Once, before the first record, in the thread that makes the producer. In a forked child
        an interceptor that was given as an object is attached again, with the child's instance."""

    def on_send(self, batch: BatchTally) -> None:
        """Sealed; not a byte of it has left: the records are accepted."""

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        """In the log from ``base_offset`` on; -1 when the broker did not say (acks=0: the bytes
        were handed to the network, no more is known)."""

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        """Given up. ``in_doubt``: bytes were sent and no answer says whether they were appended."""

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        """About every 200 ms, also when idle. ``oldest_pending_ms`` is the smallest timestamp
        among the stamped records that send() took and that are not settled; None: there is none.
        Read after ``now_ms``: a record that is not counted in it has a timestamp from ``now_ms``
        on, unless its sender gave an older one."""

    def on_close(self, now_ms: int) -> None:
        """After the last batch is settled, before connections close; ``publish`` still works and
        the producer waits for what it returned."""
