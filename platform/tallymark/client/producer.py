"""The producer: publishes records, stamped so that each of them can be accounted for.

>>> with Producer(bootstrap_servers="127.0.0.1:9092") as producer:   # doctest: +SKIP
...     producer.send("page-views", b"...", key=b"member-7")

Sending takes a record in and returns; a background thread batches, retries and reports. One
producer serves any number of threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Never, Self, TypeAlias

from tallymark.client.bootstrap import Bootstrap
from tallymark.client.delivery import Delivery, OnDelivery
from tallymark.client.forks import fork_lock, generation
from tallymark.client.interceptor_chain import load_interceptors
from tallymark.client.interceptors import ProducerInterceptor
from tallymark.client.lane import Lane, Partitioner, TopicLanes
from tallymark.client.producer_core import ProducerCore
from tallymark.client.producer_settings import (
    Acks,
    ProducerSettings,
    acks_number,
    server_name,
    unknown_keyword,
)
from tallymark.client.stamps import STAMP_HEADER
from tallymark.errors import CODES, ClosedError, KafkaError, LocalProtocolError, TimedOutError
from tallymark.protocol.records import Header
from tallymark.protocol.schema import Buffer

log: Final = logging.getLogger(__name__)

Encoder: TypeAlias = Callable[[str, Any], bytes | None]
"""``encoder(topic, value) -> bytes``; called in the thread that sends."""

_inherited: list[ProducerCore] = []
"""Cores of the parent process, kept for ever in a forked child: what they own is the parent's, and
letting Python collect them would touch the parent's sockets."""


class Producer:
    """Publishes records to the topics of one cluster.

    Where: ``bootstrap_servers`` ("host:port,...") or ``zookeeper_connect`` ("host:port/chroot").

    How surely: ``acks`` "all" (default), 1 or 0; ``enable_idempotence`` (with acks="all": retries
    make no duplicates and keep the order); ``delivery_timeout_ms`` bounds everything from send()
    to success or failure, ``request_timeout_ms`` one attempt, ``retry_backoff_ms`` the pause
    between two.

    How fast: ``batch_size`` (bytes a partition), ``linger_ms`` (how long a batch waits for
    company), ``compression_type`` (none, gzip, snappy, lz4, zstd), ``max_in_flight`` (requests a
    connection), ``buffer_memory`` (bytes in all; when it is full send() waits ``max_block_ms``).

    What: ``key_encoder`` and ``value_encoder`` turn objects into bytes; ``partitioner`` overrides
    the choice by key (murmur2, as Kafka's clients) or, without key, partition after partition.

    The audit: every record gets a ``tm`` header saying who sent it as which of theirs
    (:mod:`tallymark.client.stamps`), ``server`` being the name in it (default: this host);
    ``stamp=False`` sends records as they are, for copying them from elsewhere; ``backfill`` says
    that timestamps are old on purpose; ``interceptors`` listen (default: those that are installed
    under the entry point ``tallymark.interceptors``; an empty list: none).

    Closing waits until everything is delivered; use ``with``. A forked child that uses the
    producer gets a life of its own in it: a new instance, new connections, nothing buffered.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        zookeeper_connect: str | None = None,
        client_id: str = "tallymark",
        acks: Acks = "all",
        batch_size: int = 16384,
        linger_ms: float = 5,
        compression_type: str = "none",
        buffer_memory: int = 33554432,
        max_block_ms: float = 60000,
        delivery_timeout_ms: float = 120000,
        request_timeout_ms: float = 30000,
        retry_backoff_ms: float = 100,
        enable_idempotence: bool = True,
        max_in_flight: int = 5,
        partitioner: Partitioner | None = None,
        key_encoder: Encoder | None = None,
        value_encoder: Encoder | None = None,
        server: str | None = None,
        stamp: bool = True,
        backfill: bool = False,
        interceptors: Sequence[ProducerInterceptor] | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_keyword(name, Producer.__init__.__kwdefaults__ or {})
        self._settings = ProducerSettings(
            client_id=client_id,
            acks=acks_number(acks),
            batch_size=batch_size,
            linger_ms=linger_ms,
            compression_type=compression_type,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            enable_idempotence=enable_idempotence,
            max_in_flight=max_in_flight,
            server=server_name(server),
            stamp=stamp,
            backfill=backfill,
        )
        self._bootstrap = Bootstrap.of(bootstrap_servers, zookeeper_connect)
        self._partitioner = partitioner
        self._key_encoder = key_encoder
        self._value_encoder = value_encoder
        self._interceptors = interceptors
        self._lock = threading.Lock()
        self._closed = False
        self._core = self._new_core()

    @property
    def instance(self) -> bytes:
        """The 8 bytes that tell this run of this producer from all others, in every stamp."""
        return self._live().instance

    @property
    def interceptor_errors(self) -> int:
        """How often an interceptor raised."""
        return self._core.chain.errors

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
        buffer, then raises TimedOutError saying for what. Raises ClosedError after close(),
        KafkaError for a topic or record that the cluster cannot take, TypeError and ValueError for
        arguments; whatever an encoder raises. All else comes through the Delivery.
        """
        core = self._live()
        if self._closed:
            raise ClosedError("send() after close(): the producer has been closed")
        if key is not None:
            key = _encoded("key", topic, key, self._key_encoder)
        if value is not None:
            value = _encoded("value", topic, value, self._value_encoder)
        if timestamp is not None and not 0 <= timestamp < 2**63:
            raise ValueError(f"timestamp {timestamp} is not milliseconds since the epoch")
        lanes = core.topics.get(topic) or self._open_topic(core, topic)
        lane = self._choose(core, lanes, key, partition)
        stamped = core.settings.stamp and not lanes.internal
        kept = tuple(headers) if headers else ()
        if stamped and kept:  # a record read elsewhere and sent on is a new message of ours
            kept = tuple(header for header in kept if header[0] != STAMP_HEADER)
        return core.accumulator.append(
            lane,
            key,
            value,
            kept,
            timestamp,
            stamped=stamped,
            on_delivery=on_delivery,
            # In a callback nobody could make room while we waited for it.
            block=None if core.io.is_current else core.settings.max_block_ms / 1000,
        )

    def flush(self, timeout: float | None = None) -> None:
        """Send what lingers and return when everything sent so far is delivered or given up.

        Raises TimedOutError after ``timeout`` seconds saying how much is pending; nothing is lost
        by that.
        """
        core = self._live()
        if self._closed:
            raise ClosedError("flush() after close(): the producer has been closed")
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
            self._closed = True
        given_up = core.close(timeout)
        if given_up:
            raise TimedOutError(f"close(): {given_up} records were not delivered in {timeout:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except TimedOutError as late:  # the first error is the one to be seen
            log.error("%s", late)

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

    def _new_core(self) -> ProducerCore:
        interceptors = load_interceptors() if self._interceptors is None else self._interceptors
        return ProducerCore(self._bootstrap, self._settings, interceptors)

    def _open_topic(self, core: ProducerCore, topic: str) -> TopicLanes:
        timeout = core.settings.max_block_ms / 1000
        return core.io.run(core.open_topic(topic, timeout), what=f"send to new topic {topic}")

    def _choose(
        self, core: ProducerCore, topic: TopicLanes, key: Buffer | None, partition: int | None
    ) -> Lane:
        if partition is None:
            if self._partitioner is None:
                return topic.choose(None if key is None else bytes(key))
            numbers = range(len(topic.lanes))
            partition = self._partitioner(topic.name, None if key is None else bytes(key), numbers)
        if partition >= len(topic.lanes) and not core.io.is_current:
            core.io.run(core.refresh_topic(topic), what=f"metadata of {topic.name}")
        if not 0 <= partition < len(topic.lanes):
            raise KafkaError(
                CODES["UNKNOWN_TOPIC_OR_PARTITION"],
                f"{topic.name}-{partition} (the topic has {len(topic.lanes)} partitions)",
            )
        return topic.lanes[partition]


def _encoded(what: str, topic: str, value: Any, encoder: Encoder | None) -> Buffer | None:
    if encoder is not None:
        value = encoder(topic, value)
    if value is None or isinstance(value, bytes | bytearray):
        return value
    if isinstance(value, memoryview):
        return value.tobytes()
    raise TypeError(
        f"a {what} must be bytes or None, not {type(value).__name__}: encode it, or give the "
        f"Producer a {what}_encoder"
    )
