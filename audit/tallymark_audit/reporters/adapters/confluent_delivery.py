"""Delivery reports of an audited confluent-kafka producer: what they say about a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError

from tallymark_audit.reporters.adapters.partition_tracker import PartitionTracker
from tallymark_audit.reporters.books.tally_cell import Outcome

DeliveryCallback: TypeAlias = Callable[[Any, Any], None]

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
"""Errors after which a record is certainly not in the log; after any other error it may be there.
An unknown topic or partition is not among them: librdkafka reports it also for a record that it was
about to send a second time when the topic went away, and the first time may have arrived."""


def delivery_reports(tracker: PartitionTracker) -> Callable[..., None]:
    """What the delivery reports of a partition call: ``(number, error, message)``."""
    done, failed = tracker.done.append, tracker.failed.append

    def deliver(number: int, error: KafkaError | None, message: object) -> None:
        if error is None:
            done(number)
        else:
            failed((number, librdkafka_outcome(error)))

    return deliver


def librdkafka_outcome(error: KafkaError) -> Outcome:
    """Whether a record with this error is certainly not in the log (FAILED), or may be there."""
    return Outcome.FAILED if error.code() in _NOT_IN_LOG else Outcome.IN_DOUBT
