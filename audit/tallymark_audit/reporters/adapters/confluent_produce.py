"""What happens to each record of an audited confluent-kafka producer, and so what the audit costs.

There is as little Python for a record as can be: the function is a closure, since attributes of
``self`` take time; the partition of a record without a key is at hand; what can wait is done by
:meth:`.partition_tracker.PartitionTracker.drain`, for many at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError

from tallymark.clock import now_ms
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.partition_tracker import PartitionTracker
from tallymark_audit.reporters.adapters.record_path import number_of
from tallymark_audit.reporters.adapters.run import AdapterRun
from tallymark_audit.reporters.books.tally_cell import Outcome

DeliveryCallback: TypeAlias = Callable[[Any, Any], None]
Headers: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]

_NOT_IN_LOG: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
    }
)
"""Errors after which a record is certainly not in the log; after any other nobody knows. Not that
a topic or partition is unknown: librdkafka says so also of a record that it was about to send a
second time when the topic went away, and the first time may have arrived."""


def producing(
    inner: Any,
    run: AdapterRun,
    topics: AuditedTopics,
    told: deque[tuple[DeliveryCallback, Any, Any]],
    default_callback: DeliveryCallback | None,
) -> Callable[..., None]:
    """The ``produce`` of an audited producer. The application's callbacks are put into ``told``
    when their record is reported; ``default_callback`` is the callback of the configuration."""
    hand_over, known, learn, later = inner.produce, topics.known, topics.learn, told.append

    def produce(
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        places = known.get(topic) or learn(topic)
        tell = callback or on_delivery or default_callback
        if places is None or (partition >= 0 and partition >= len(places.places)):
            hand_over(topic, value, key, partition, tell, None, timestamp, headers or [])
            return
        with run.lock:
            now = now_ms()
            if partition >= 0:
                tracker = places.places[partition]
            elif key is None and now < places.until:
                tracker = places.sticky
            else:
                tracker = places.choose(key, now)
            header, report = next(tracker.items)
            when = timestamp or now
            tracker.times.append(when)
            own = report if tell is None else partial(_report_and_defer, report, later, tell)
            stamped = [header] if headers is None else _joined(headers, header)
            try:
                hand_over(topic, value, key, tracker.partition, own, None, when, stamped)
            except BaseException:
                run.refuse(tracker, delivery_reports(tracker), number_of(report))
                raise
            if value:
                tracker.size += len(value)
            if key:
                tracker.size += len(key)

    return produce


def delivery_reports(tracker: PartitionTracker) -> Callable[..., None]:
    """What the delivery reports of a lane call: ``(number, error, message)``."""
    done, failed = tracker.done.append, tracker.failed.append

    def deliver(number: int, error: KafkaError | None, message: object) -> None:
        if error is None:
            done(number)
        else:
            failed((number, librdkafka_outcome(error)))

    return deliver


def librdkafka_outcome(error: KafkaError) -> Outcome:
    """What a record's error says about it."""
    return Outcome.FAILED if error.code() in _NOT_IN_LOG else Outcome.IN_DOUBT


def _report_and_defer(
    report: DeliveryCallback,
    later: Callable[[tuple[DeliveryCallback, Any, Any]], None],
    tell: DeliveryCallback,
    error: Any,
    message: Any,
) -> None:
    report(error, message)
    later((tell, error, message))


def _joined(headers: Headers, stamp: tuple[str, bytes]) -> list[tuple[str, Any]]:
    """The stamp last, since the last one of its name counts: a header of another one's is no
    reason not to be counted."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [*pairs, stamp]
