"""The producer: publishes records, stamped so that each of them can be accounted for.

>>> with Producer(bootstrap_servers="127.0.0.1:9092") as producer:   # doctest: +SKIP
...     producer.send("page-views", b"...", key=b"member-7")

Sending takes a record in and returns; a background thread batches, retries and reports. One
producer serves any number of threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any, Final, Unpack

from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.forks import fork_lock, generation
from tallymark.client.core.security.security import client_security
from tallymark.client.core.setting_types import shows_options, split_options
from tallymark.client.producing.batch_delivery import BatchDelivery, OnBatchDelivery
from tallymark.client.producing.core import ProducerCore
from tallymark.client.producing.delivery import Delivery, OnDelivery
from tallymark.client.producing.encoders import BatchEncoder, Encoder
from tallymark.client.producing.interceptors.chain import checked_interceptors, with_installed
from tallymark.client.producing.interceptors.queue_interceptor import OutgoingRecord
from tallymark.client.producing.record_appender import RecordAppender
from tallymark.client.producing.settings import ProducerOptions, ProducerSettings
from tallymark.client.producing.transaction_calls import TransactionalAppender, TransactionCalls
from tallymark.closing import ClosedByWith
from tallymark.errors import ClosedError, LocalProtocolError, TimedOutError
from tallymark.protocol.records.batch import Header

__all__ = ["BatchEncoder", "Encoder", "Producer"]

log: Final = logging.getLogger(__name__)

_inherited: list[ProducerCore] = []
"""Cores of the parent process, kept for ever in a forked child: what they own is the parent's, and
letting Python collect them would touch the parent's sockets."""


class Producer(TransactionCalls, ClosedByWith):
    """Publishes records to the topics of one cluster.

    Where: ``bootstrap_servers`` ("host:port,...") or ``zookeeper_connect`` ("host:port/chroot");
    ``security`` is TLS and the log-in
    (:class:`~tallymark.client.core.security.security.SecuritySettings`).

    How surely: ``acks`` "all" (default), 1 or 0; ``enable_idempotence`` (with acks="all": retries
    make no duplicates and keep the order); ``delivery_timeout_ms`` bounds everything from send()
    to success or failure, ``request_timeout_ms`` one attempt, ``retry_backoff_ms`` the pause
    between two.

    How fast: ``batch_size`` (bytes a partition; up to 128 KB where that makes a batch hardly later,
    unless ``batch_size`` is below 4096: behind others that wait, of a list, or filled within a
    millisecond of a longer ``linger_ms``), ``batch_num_messages`` (records),
    ``linger_ms`` (how long a batch waits for company), ``compression_type`` (none, gzip, snappy,
    lz4, zstd) and ``compression_level`` (gzip 1 to 9, zstd -7 to 22), ``max_in_flight`` (requests
    a connection), ``buffer_memory`` (bytes in all). When that is full, ``on_buffer_full`` says what
    send() does: "block" waits ``max_block_ms``, "fail" raises, "drop" drops the record and counts.

    What: ``key_encoder`` and ``value_encoder`` turn objects into bytes; ``partitioner`` overrides
    the choice by key (murmur2, as Kafka's clients) or, without key, partition after partition.
    ``interceptors`` of the queue see, change and drop records, ``event_handler`` is notified of
    them (:mod:`tallymark.client.producing.interceptors.queue_interceptor`).

    The audit: every record gets a ``tm`` header with its sender and number (:mod:`.stamps`);
    ``server`` is the sender's name in it (default: this host). Interceptors that are installed
    under the entry point ``tallymark.interceptors`` observe the records; ``interceptors`` are added
    to them, or replace an installed one of their class. ``audit=False`` leaves out the installed
    ones, and then no record is stamped: for copying records as they are, and for records that are
    not to be accounted for. ``backfill`` says that timestamps are old on purpose.
    ``stamp`` overrides whether records are stamped; stamps without an audit are found UNCLAIMED.

    Transactions: with ``transactional_id`` records and offsets are sent in transactions
    (:meth:`transaction`), all committed or none, and another producer with the id is fenced.
    ``transaction_timeout_ms`` is how long a transaction may be open before its coordinator aborts
    it. Needs acks="all" and idempotence. The audit claims a transaction's records when it is
    committed; what was aborted is counted apart.

    ``metrics`` is called with what is measured (:mod:`tallymark.client.metrics`).

    Closing waits until everything is delivered; use ``with``. A forked child that uses the
    producer gets a life of its own in it: a new instance, new connections, nothing buffered.
    """

    @shows_options(ProducerSettings)
    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        own, security = split_options(Producer, ProducerSettings, options)
        secured = client_security(security, Producer)
        self._settings = settings = ProducerSettings(**own)
        self._bootstrap = Bootstrap.of(
            settings.bootstrap_servers, settings.zookeeper_connect, secured
        )
        given = settings.interceptors
        self._interceptors = checked_interceptors(() if given is None else given)
        self._appender: RecordAppender
        self._lock = threading.Lock()
        self._closed = False
        self._core = self._new_core()

    @property
    def instance(self) -> bytes:
        """The 8 bytes in every stamp that identify this run of this producer."""
        return self._live().instance

    @property
    def interceptor_errors(self) -> int:
        """How often an interceptor raised."""
        return self._core.chain.errors + self._core.stages.errors

    @property
    def dropped(self) -> int:
        """How many records were not taken in for want of room (``on_buffer_full="drop"``)."""
        return self._core.dropped

    def metrics(self) -> dict[str, float]:
        """What was done so far, by name: records and batches acknowledged, failed, split, retried
        and dropped, requests, bytes, request latency in ms, the buffer's use. Cheap."""
        core = self._core
        buffer = core.accumulator.buffer
        return core.metrics.snapshot() | {
            "records_dropped": core.dropped,
            "buffer_used_bytes": buffer.used,
            "buffer_total_bytes": buffer.limit,
            "interceptor_errors": self.interceptor_errors,
        }

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record in; it leaves with its batch. Thread-safe.

        ``value`` and ``key`` are bytes or None, or whatever the encoders take. ``timestamp`` is
        the record's creation time in milliseconds since the epoch (default: now). ``headers`` are
        (name, bytes or None) pairs and are kept as they are. ``on_delivery(error, metadata)`` is
        called on the producer's own thread and must be quick.

        Waits at most ``max_block_ms`` for the topic's partitions to be known and for room in the
        buffer, then raises TimedOutError saying for what. ``on_buffer_full`` "fail": raises
        BufferFullError rather than wait for room; "drop": the Delivery has that error, and
        :attr:`dropped` counts it. Raises ClosedError after close(), KafkaError for a topic or
        record that the cluster cannot take, TypeError and ValueError for arguments; whatever an
        encoder or ``before_enqueue`` raises. All else comes through the Delivery.
        """
        if type(value) is bytes and key is None and partition is None and timestamp is None:
            queues = self._core.quick.get(topic)
            if queues is not None and on_delivery is None and not headers:
                delivery = self._core.accumulator.append_value(queues, value)
                if delivery is not None:
                    return delivery
        record = OutgoingRecord(topic, value, key, partition, timestamp, tuple(headers))
        return self._ready("send()").send(record, on_delivery)

    def send_many(
        self,
        topic: str,
        values: Any,
        *,
        keys: Any = None,
        partition: int | None = None,
        timestamps: Any = None,
        headers: Iterable[Header] = (),
        on_delivery: OnBatchDelivery | None = None,
    ) -> BatchDelivery:
        """Take many records in: a column of values, several times as fast as one by one.

        ``values`` and ``keys`` are lists, tuples or columns (NumPy, pandas, Arrow) of what send()
        takes; an encoder with ``encode_many(topic, values)`` gets them at once. ``timestamps`` is
        one for all, or a column of ms or of NumPy's datetimes; ``headers`` are those of every
        record. Records of one partition keep their order. ``on_delivery(error, metadata)`` is
        called once, when all have ended.

        Waiting and errors are those of send(); when there is no room the text says how many
        records were taken in before. With "drop" the rest of them are.
        """
        appender = self._ready("send_many()")
        delivery = appender.send_many(topic, values, keys, partition, timestamps, headers)
        if on_delivery is not None:
            delivery.tell(on_delivery)
        return delivery

    def flush(self, timeout: float | None = None) -> None:
        """Send what lingers and return when everything sent so far is delivered or given up.

        Raises TimedOutError after ``timeout`` seconds saying how much is pending; nothing is lost
        by that.
        """
        core = self._ready("flush()").core
        try:
            core.io.run(core.flush(), timeout, "flush()")
        except TimedOutError as error:
            pending = core.io.run(core.unsettled(), what="flush()")
            if pending:
                raise TimedOutError(f"{error}; {pending} records are not delivered yet") from None

    def close(self, timeout: float = 30.0) -> None:
        """Deliver what is pending, for at most ``timeout`` seconds, and stop. Twice does nothing.

        Raises TimedOutError saying how many records were given up, if any were; their Delivery
        has the error too.
        """
        core = self._live()
        if core.io.is_current:
            raise LocalProtocolError("close() cannot be waited for inside a callback of the client")
        with self._lock:
            if self._closed:
                return
            self._send_last(core)
            self._closed = True
        given_up = core.close(timeout)
        if given_up:
            raise TimedOutError(f"close(): {given_up} records were not delivered in {timeout:g} s")

    def _close_after(self, error: BaseException) -> None:
        try:
            self.close()
        except TimedOutError as late:  # the error of the block is the one to be seen
            log.error("%s", late)

    def _send_last(self, core: ProducerCore) -> None:
        """What interceptors have kept back until now."""
        for record in core.stages.last_records():
            try:
                self._appender.send(record)
            except Exception:
                log.exception("a record that was to be sent before close() was not")

    def _live(self) -> ProducerCore:
        core = self._core
        return core if core.generation == generation() else self._after_fork()

    def _after_fork(self) -> ProducerCore:
        with fork_lock():
            if self._core.generation != generation():
                _inherited.append(self._core)
                self._lock = threading.Lock()
                self._core = self._new_core()
        return self._core

    def _ready(self, call: str) -> RecordAppender:
        self._live()
        if self._closed:
            raise ClosedError(f"{call} after close(): the producer has been closed")
        return self._appender

    def _new_core(self) -> ProducerCore:
        settings, given = self._settings, self._interceptors
        interceptors = with_installed(given) if settings.audit else given
        core = ProducerCore(self._bootstrap, settings, interceptors)
        self._appender = (
            RecordAppender(core) if core.transactions is None else TransactionalAppender(core)
        )
        return core
