"""``audited()`` for kafka-python: chooses the partition with the producer's partitioner, stamps the
record, and sends it.

The producer's own thread resolves its futures, so nothing has to be polled; the application gets
the producer's futures.
"""

from __future__ import annotations

import atexit
import os
import re
import time
import weakref
from functools import partial
from typing import Any, Final

from kafka.errors import BrokerResponseError
from kafka.partitioner.default import DefaultPartitioner
from kafka.partitioner.sticky import StickyPartitioner

from tallymark.client.core.forks import tell_in_child
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.clock import now_ms
from tallymark.closing import ClosedByWith
from tallymark_audit.reporters.adapters.adoption import Adoption
from tallymark_audit.reporters.adapters.kafka_python_reports import (
    KafkaPythonReports,
    kafka_python_outcome,
)
from tallymark_audit.reporters.adapters.partition_tracker import PageMaker, PartitionTracker
from tallymark_audit.reporters.adapters.partitioners import PARTITIONERS, PartitionChooser
from tallymark_audit.reporters.adapters.record_path import Deliver
from tallymark_audit.reporters.adapters.run import AdapterRun

LAST_SECONDS: Final = 5.0
_JAVA: Final = PARTITIONERS["murmur2_random"]
_KNOWN: Final = (DefaultPartitioner, StickyPartitioner)
"""What these choose is known: murmur2 of the key, or any partition for a record without a key."""


class AuditedKafkaProducer(ClosedByWith):
    """A ``kafka.KafkaProducer`` whose records are audited; see
    :func:`tallymark_audit.reporters.adapters.audited`. Every method and attribute of the producer
    is there, does what it did, and may be called from as many threads."""

    def __init__(self, inner: Any, run: AdapterRun, topics: str) -> None:
        """``topics``: a regular expression, the audited topics."""
        self._inner = inner
        self._run = run
        self._audited = re.compile(topics)
        self._trackers: dict[tuple[str, int], PartitionTracker] = {}
        self._choosers: dict[str, PartitionChooser[int]] = {}
        self._partitioner = inner.config["partitioner"]
        self._finalizer = weakref.finalize(self, _finish, inner, run, os.getpid())
        self._finalizer.atexit = False
        atexit.register(self._finalizer)  # before that of the producer, which was registered first

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """As ``kafka.KafkaProducer.send``."""
        if self._run.over or topic.startswith("_") or not self._audited.fullmatch(topic):
            return self._inner.send(topic, value, key, headers, partition, timestamp_ms)
        try:
            chosen = self._choose(topic, value, key, headers, partition)
        except BrokerResponseError:  # the producer has a future for that
            return self._inner.send(topic, value, key, headers, partition, timestamp_ms)
        with self._run.lock:
            tracker = self._tracker(topic, chosen)
            now = now_ms()
            header, deliver = next(tracker.headers), next(tracker.reports)
            number = tracker.next
            when = now if timestamp_ms is None else timestamp_ms
            tracker.times.append(when)
            try:
                future = self._inner.send(
                    topic, value, key, [*(headers or ()), header], chosen, when
                )
            except BaseException:
                self._run.refuse(tracker, number)
                raise
            tracker.size += _size(value) + _size(key)
        future.add_callback(partial(deliver, None))
        future.add_errback(deliver, None)
        return future

    def flush(self, timeout: float | None = None) -> Any:
        """As ``kafka.KafkaProducer.flush``. When it returns, the books hold what was delivered."""
        try:
            return self._inner.flush(timeout)
        finally:
            self._run.flushed()

    def begin_transaction(self) -> None:
        """As the producer's method, and so are the next two. What is acknowledged in a transaction
        is claimed when the transaction is committed, and reported as aborted when it is aborted."""
        self._inner.begin_transaction()
        self._run.begin()

    def commit_transaction(self) -> None:
        self._inner.commit_transaction()
        self._run.commit()

    def abort_transaction(self) -> None:
        self._inner.abort_transaction()
        self._run.abort()

    def close(self, timeout: float | None = None) -> None:
        """Deliver what is pending, send the last report, and close the producer."""
        begin = time.monotonic()
        try:
            self.flush(timeout)
        finally:
            self._finalizer()
            atexit.unregister(self._finalizer)
            left = None if timeout is None else max(0.0, timeout - (time.monotonic() - begin))
            self._inner.close(left)

    def forked(self) -> None:
        """In a forked child the producer's threads do not run: nothing is sent or counted."""
        self._run.forked()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _choose(self, topic: str, value: Any, key: Any, headers: Any, partition: int | None) -> int:
        """The partition that the producer would choose."""
        if partition is not None:
            return partition
        inner = self._inner
        known = inner.partitions_for(topic)
        serialize = partial(inner._serialize, topic=topic, headers=headers or [])
        key_bytes = serialize(inner.config["key_serializer"], data=key)
        if type(self._partitioner) not in _KNOWN:
            value_bytes = serialize(inner.config["value_serializer"], data=value)
            chosen: int = inner._partition(topic, None, key, value, key_bytes, value_bytes)
            return chosen
        chooser = self._choosers.get(topic)
        if chooser is None or len(chooser.partitions) != len(known):
            chooser = self._choosers[topic] = PartitionChooser(sorted(known), _JAVA)
        return chooser.choose(bytes(key_bytes) if key_bytes is not None else None, now_ms())

    def _tracker(self, topic: str, partition: int) -> PartitionTracker:
        tracker = self._trackers.get((topic, partition))
        if tracker is None:
            tracker = self._trackers[topic, partition] = self._run.tracker(
                topic, partition, future_callbacks
            )
        return tracker


def future_callbacks(tracker: PartitionTracker) -> PageMaker:
    """What makes the functions that the futures of a partition call: ``(place, None, result)``;
    ``result`` may be an exception."""
    done, failed = tracker.done.append, tracker.failed.append

    def make(at: list[int], asked: object) -> Deliver:
        def deliver(place: int, _: None, result: object) -> None:
            if isinstance(result, Exception):
                failed((at[0] + place, kafka_python_outcome(result)))
            else:
                done(at[0] + place)

        return deliver

    return make


def adopt_kafka_python(producer: Any, adoption: Adoption) -> AuditedKafkaProducer:
    """See :func:`tallymark_audit.reporters.adapters.adopt.audited`."""
    reports = KafkaPythonReports(producer)
    context = ProducerContext(
        instance=adoption.instance,
        server=adoption.server,
        client_id=adoption.application or str(producer.config.get("client_id") or "kafka-python"),
        acks=int(producer.config["acks"]),
        backfill=adoption.backfill,
        publish=reports.queue.publish,
        create_topic=reports.queue.create_topic,
        read_cluster_id=lambda: producer._metadata.cluster_id,
    )
    run = AdapterRun(adoption.interceptor, context, reports)
    wrapper = AuditedKafkaProducer(producer, run, adoption.topics)
    tell_in_child(wrapper)
    return wrapper


def _finish(inner: Any, run: AdapterRun, process: int) -> None:
    """The end of a producer that was not closed."""
    if not run.over and os.getpid() == process:
        try:
            inner.flush(LAST_SECONDS)
        finally:
            run.close()


def _size(data: Any) -> int:
    """The size in bytes, where it is known; what is serialized later counts as 0."""
    return len(data) if isinstance(data, bytes | bytearray | str) else 0
