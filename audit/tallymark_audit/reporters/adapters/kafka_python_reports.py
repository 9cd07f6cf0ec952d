"""Sends the reports of an audited kafka-python producer: with the producer itself, or, if it has
serializers or transactions, with a second one of the same configuration."""

from __future__ import annotations

from typing import Any, Final

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark_audit.reporters.adapters.report_queue import OutgoingReport, ReportQueue, WantedTopic
from tallymark_audit.reporters.books.tally_cell import Outcome

_ASK_MS: Final = 5000
_NOT_FOR_REPORTS: Final = {
    *("transactional_id", "key_serializer", "value_serializer", "partitioner", "metric_reporters"),
    *("acks", "linger_ms", "client_id"),
}
_NOT_IN_LOG: Final = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTopicError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.UnsupportedForMessageFormatError,
    kafka_errors.PolicyViolationError,
)
"""Errors after which a record is certainly not in the log; after any other it may be there."""


def kafka_python_outcome(error: Exception) -> Outcome:
    """Whether a record with this error is certainly not in the log (FAILED), or may be there."""
    return Outcome.FAILED if isinstance(error, _NOT_IN_LOG) else Outcome.IN_DOUBT


class KafkaPythonReports:
    """Sends reports and makes their topic."""

    def __init__(self, audited: Any) -> None:
        self._audited = audited
        config = audited.config
        names = ("transactional_id", "key_serializer", "value_serializer")
        self._own_needed = any(config[name] is not None for name in names)
        self._own: Any = None
        self.queue = ReportQueue(self._send, self._make, _nothing)

    def serve(self) -> None:
        """See :class:`~tallymark_audit.reporters.adapters.run.Publisher`."""
        self.queue.serve()

    def close(self, seconds: float) -> None:
        self.queue.close(seconds)
        if self._own is not None:
            self._own.close(1)

    def _send(self, out: OutgoingReport) -> None:
        if self._own is None and self._own_needed:
            names = KafkaProducer.DEFAULT_CONFIG.keys() - _NOT_FOR_REPORTS
            rest = {name: self._audited.config[name] for name in names}
            self._own = KafkaProducer(**rest, acks="all", linger_ms=5)
        sent = (self._own or self._audited).send(
            out.topic, out.value, out.key, timestamp_ms=out.timestamp
        )

        def arrived(at: Any) -> None:
            where = RecordMetadata(at.topic, at.partition, at.offset, at.timestamp)
            out.future.set_result(where)

        sent.add_callback(arrived)
        sent.add_errback(out.future.set_exception)

    def _make(self, wanted: WantedTopic) -> None:
        known = KafkaAdminClient.DEFAULT_CONFIG
        config = {k: v for k, v in self._audited.config.items() if k in known and v is not None}
        config["metric_reporters"] = []
        admin = KafkaAdminClient(**config)
        try:
            new: Any = {
                wanted.name: {
                    "num_partitions": wanted.partitions,
                    "replication_factor": -1,
                    "configs": dict(wanted.configs),
                }
            }
            admin.create_topics(new, timeout_ms=_ASK_MS)
        except kafka_errors.TopicAlreadyExistsError:
            wanted.future.set_result(False)
            return
        except kafka_errors.BrokerResponseError as error:
            raise KafkaError(getattr(error, "errno", CODES["UNKNOWN_SERVER_ERROR"])) from error
        except kafka_errors.KafkaError as error:
            raise TimedOutError(f"{wanted.name} was not made: {error}") from error
        finally:
            admin.close()
        wanted.future.set_result(True)


def _nothing() -> None:
    pass
