"""Everything of a producer that a fork must not share: thread, connections, batches, instance."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from tallymark.client.admin.topic_admin import create_topic
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.forks import generation, tell_in_child
from tallymark.client.core.io_thread import IoThread
from tallymark.client.producing.batches.accumulator import Accumulator, BatchRules
from tallymark.client.producing.batches.buffer_memory import BufferMemory
from tallymark.client.producing.batches.partition_queue import PartitionQueue, TopicQueues
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors.chain import InterceptorChain
from tallymark.client.producing.interceptors.producer_interceptor import (
    ProducerContext,
    ProducerInterceptor,
)
from tallymark.client.producing.interceptors.queue_interceptor import QueueInterceptor
from tallymark.client.producing.interceptors.stages import QueueStages
from tallymark.client.producing.producer_metrics import ProducerMetrics
from tallymark.client.producing.sending.batch_completion import BatchCompletion
from tallymark.client.producing.sending.dispatcher import SendRules
from tallymark.client.producing.sending.sender import Sender
from tallymark.client.producing.settings import ProducerSettings
from tallymark.client.producing.stamps import INSTANCE_BYTES
from tallymark.client.producing.transactions.manager import TransactionManager
from tallymark.clock import now_ms
from tallymark.errors import ClientFailedError, TimedOutError

_LAST_REPORTS: Final = 2.0
"""Seconds that interceptors' final records get at least, however short the deadline of close()."""


class ProducerCore:
    """One life of a producer: made when it is, and again in a forked child."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        settings: ProducerSettings,
        interceptors: Sequence[ProducerInterceptor | QueueInterceptor],
    ) -> None:
        self.generation = generation()
        self.instance = os.urandom(INSTANCE_BYTES)
        self.settings = settings
        self.topics: dict[str, TopicQueues] = {}
        """Topics sent to so far. Only the I/O thread adds to it and to what is in it."""
        self.quick: dict[str, TopicQueues] = {}
        """Those whose plain values may take :meth:`Accumulator.append_value`; none after close()
        and in a forked child."""
        self.dropped = 0
        self._reported: dict[str, TopicQueues] = {}
        """See :meth:`_report_topic`."""
        self._drop_lock = threading.Lock()
        self.metrics = ProducerMetrics()
        self.chain = InterceptorChain(interceptors)
        self.stages = QueueStages(interceptors, settings.event_handler)
        plain = settings.partitioner is None and settings.value_encoder is None
        plain = plain and settings.transactional_id is None  # each send() looks at its state
        self._quick = plain and not self.stages.records
        tell_in_child(self)
        self.io = IoThread(f"tallymark-producer-{self.instance.hex()[:8]}")
        self._publishing: set[Future[RecordMetadata]] = set()
        self._build(bootstrap, settings)
        self.chain.attach(self._context())
        self.io.on_failure = self._failed
        self.io.call(self._sender.start)

    def _build(self, bootstrap: Bootstrap, settings: ProducerSettings) -> None:
        self.cluster = Cluster(
            bootstrap,
            settings.client_id,
            request_timeout=settings.request_timeout_ms / 1000,
            create_topics=True,
            metrics=settings.metrics,
        )
        buffer = BufferMemory(settings.buffer_memory)
        completion = BatchCompletion(
            self.chain,
            self.stages,
            self.metrics,
            buffer,
            self.instance,
            settings.name_in_stamps,
            settings.backfill,
        )
        completion.metrics = self.cluster.metrics
        rules = SendRules(
            acks=settings.required_acks,
            compression=settings.compression_type,
            compression_level=settings.compression_level,
            request_timeout=settings.request_timeout_ms / 1000,
            retry_backoff=settings.retry_backoff_ms / 1000,
            max_in_flight=settings.max_in_flight,
            transactional_id=settings.transactional_id,
        )
        self._sender = Sender(
            self.io, self.cluster, rules, completion, self.chain, self.stages, self.metrics
        )
        self._sender.on_tick = self._grow_topics
        self.transactions: TransactionManager | None = None
        """Of a producer with a transactional id."""
        if settings.transactional_id is not None:
            self.transactions = TransactionManager(
                self.cluster, self._sender, settings.transactional_id, settings
            )
        self.accumulator = self._sender.accumulator = Accumulator(
            BatchRules(
                settings.batch_size,
                settings.linger_ms / 1000,
                settings.delivery_timeout_ms / 1000,
                settings.batch_num_messages,
            ),
            buffer,
            self._sender.handover,
        )

    # --- topics -----------------------------------------------------------------------------

    async def open_topic(self, name: str, timeout: float) -> TopicQueues:
        """The topic's partitions, asked for (and so created, where the brokers do that) until
        they are known. Errors as :meth:`Cluster.topic`."""
        topic = self.topics.get(name)
        if topic is None:
            info = await self.cluster.topic(name, timeout)
            topic = self.topics.setdefault(name, TopicQueues(name, self.settings.stamped))
            topic.grow(info.partition_count, self._queue)
            if self._quick and not self.accumulator.closed:
                self.quick[name] = topic
        return topic

    async def refresh_topic(self, topic: TopicQueues) -> None:
        """Ask for new partitions of a topic now."""
        await self.cluster.refresh([topic.name])
        self._grow_topics()

    def _grow_topics(self) -> None:
        for name, topic in self.topics.items():
            info = self.cluster.metadata.topic(name)
            if info is not None and info.partition_count > len(topic.queues):
                topic.grow(info.partition_count, self._queue)

    def _queue(self, owner: TopicQueues, partition: int) -> PartitionQueue:
        settings = self.settings
        pipeline = (
            Pipeline(settings.idempotent, settings.max_in_flight, splits=True)
            if self.transactions is None
            else self.transactions.pipeline((owner.name, partition))
        )
        return PartitionQueue(owner, partition, self.instance, settings.name_in_stamps, pipeline)

    async def _report_topic(self, name: str, timeout: float) -> TopicQueues:
        """The partitions for what interceptors publish. Of a transactional producer they are apart:
        reports are sent outside of its transactions, without a producer id, since its own is in
        them. A report that is there twice says the same."""
        if self.transactions is None:
            return await self.open_topic(name, timeout)
        topic = self._reported.get(name)
        if topic is None:
            info = await self.cluster.topic(name, timeout)
            topic = self._reported.setdefault(name, TopicQueues(name, stamped=False))
            topic.grow(info.partition_count, self._report_queue)
        return topic

    def _report_queue(self, owner: TopicQueues, partition: int) -> PartitionQueue:
        pipeline = Pipeline(False, 1, splits=True)
        return PartitionQueue(
            owner, partition, self.instance, self.settings.name_in_stamps, pipeline
        )

    # --- interceptors -----------------------------------------------------------------------

    def _context(self) -> ProducerContext:
        settings = self.settings
        return ProducerContext(
            instance=self.instance,
            server=settings.name_in_stamps,
            client_id=settings.client_id,
            acks=settings.required_acks,
            backfill=settings.backfill,
            publish=self._publish_soon,
            create_topic=self._create_topic_soon,
            read_cluster_id=lambda: self.cluster.metadata.cluster_id,
        )

    def _publish_soon(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None = None
    ) -> Future[RecordMetadata]:
        future = self.io.submit(self._publish(topic, key, value, timestamp))
        self._publishing.add(future)
        future.add_done_callback(self._publishing.discard)
        return future

    def _create_topic_soon(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Future[bool]:
        timeout = self.settings.max_block_ms / 1000
        return self.io.submit(create_topic(self.cluster, name, partitions, configs or {}, timeout))

    async def _publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> RecordMetadata:
        queues = await self._report_topic(topic, self.settings.max_block_ms / 1000)
        return await self.accumulator.append(
            queues.choose(key), key, value, (), timestamp, stamped=False, report=True
        )

    def _failed(self, error: ClientFailedError) -> None:
        """What was taken in must not wait for a sender that is no more."""
        self.accumulator.failure = error
        self._refuse_more()
        self._sender.give_up(error)

    def drop(self, count: int) -> None:
        """So many records were not taken in for want of room."""
        with self._drop_lock:
            self.dropped += count

    def forked(self) -> None:
        """This is a child now: its producer is to look for a core of its own."""
        self.quick = {}

    def _refuse_more(self) -> None:
        self.accumulator.closed = True
        self._quick, self.quick = False, {}
        for topic in list(self.topics.values()):
            for queue in list(topic.queues):
                with queue.lock:  # a send() under way has its record in, the next one is refused
                    queue.seal()

    # --- flush and close --------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when all that was accepted so far is settled."""
        await self._sender.flush()
        self._sender.flushed()

    async def unsettled(self) -> int:
        """How many records are neither delivered nor given up."""
        return self._sender.unsettled()

    def close(self, timeout: float) -> int:
        """Settle everything within ``timeout`` seconds, let interceptors report, end the thread.
        Returns how many records had to be given up."""
        self._refuse_more()
        try:
            return self.io.finish(self._close(timeout))
        finally:
            self.io.stop()

    async def _close(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        if self.transactions is not None:
            await self.transactions.close(timeout)
        self._sender.hurry()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._sender.flush(), timeout)
        given_up = self._sender.unsettled()
        if given_up:
            self._sender.give_up(
                TimedOutError(f"the producer was closed; not delivered within {timeout:g} s")
            )
        self.chain.on_close(now_ms())
        await self._let_reports_leave(max(_LAST_REPORTS, deadline - time.monotonic()))
        self._sender.give_up(TimedOutError("the producer was closed before this report left"))
        await self._sender.stop()
        await self.cluster.close()
        return given_up

    async def _let_reports_leave(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._publishing and (left := deadline - time.monotonic()) > 0:
            reports = [asyncio.wrap_future(future) for future in list(self._publishing)]
            await asyncio.wait(reports, timeout=left)
            for report in reports:  # whether it got there is the interceptor's to know
                if report.done() and not report.cancelled():
                    report.exception()
