"""Delivery reports of an audited confluent-kafka producer: what they say about a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError

from tallymark_audit.reporters.adapters.partition_tracker import PageMaker, PartitionTracker
from tallymark_audit.reporters.adapters.record_path import Deliver
from tallymark_audit.reporters.books.tally_cell import Outcome

DeliveryCallback: TypeAlias = Callable[[Any, Any], None]
DeferredCallback: TypeAlias = tuple[DeliveryCallback, Any, Any]

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


def delivery_reports(
    defer: Callable[[DeferredCallback], object], tracker: PartitionTracker
) -> PageMaker:
    """What makes the functions that the delivery reports of a partition call. ``defer`` takes the
    application's callbacks, with what they are to be called with."""
    done, failed = tracker.done.append, tracker.failed.append

    def make(at: list[int], asked: dict[object, DeliveryCallback]) -> Deliver:
        def deliver(place: int, error: KafkaError | None, message: object) -> None:
            if error is None:
                done(at[0] + place)
            else:
                failed((at[0] + place, librdkafka_outcome(error)))
            if asked:
                own = asked.pop(place, None)
                if own is not None:
                    defer((own, error, message))

        return deliver

    return make


def librdkafka_outcome(error: KafkaError) -> Outcome:
    """Whether a record with this error is certainly not in the log (FAILED), or may be there."""
    return Outcome.FAILED if error.code() in _NOT_IN_LOG else Outcome.IN_DOUBT
