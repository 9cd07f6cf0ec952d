"""Sends the reports of an audited confluent-kafka producer: with a second producer of the same
configuration, or with the audited one itself where its configuration is not known."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.errors import KafkaError
from tallymark_audit.reporters.adapters.report_queue import OutgoingReport, ReportQueue, WantedTopic

log: Final = logging.getLogger(__name__)
_ASK_SECONDS: Final = 5.0
_NOT_FOR_REPORTS: Final = (
    *("transactional.id", "partitioner", "on_delivery", "error_cb", "stats_cb", "throttle_cb"),
    *("statistics.interval.ms", "delivery.report.only.error", "acks", "request.required.acks"),
    *("queue.buffering.max.messages", "queue.buffering.max.kbytes", "linger.ms"),
    *("queue.buffering.max.ms", "enable.gapless.guarantee", "dr_cb", "dr_msg_cb"),
)


class PollWatch:
    """Whether the application polls its producer. If it does not, the run's thread polls, since the
    delivery reports of its records would not arrive. Not for a producer with callbacks of its own,
    which that thread must not call."""

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed
        self._lock = threading.Lock()
        self._waiting = 0
        self.polled = False
        """The application has polled its producer since :meth:`poll_instead` was called last."""

    @contextmanager
    def polling(self) -> Iterator[None]:
        """The application waits in ``poll()`` or ``flush()``: delivery reports are for it."""
        self.polled = True
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def poll_instead(self, poll: Callable[[float], object]) -> None:
        """Poll the producer if the application has not polled since the last call."""
        polled, self.polled = self.polled, False
        if polled or not self._allowed:
            return
        with self._lock:
            if not self._waiting:
                poll(0)


class ConfluentReports:
    """Sends reports and makes their topic. ``config``: the audited producer's; if it is known,
    reports have a producer of their own."""

    def __init__(
        self,
        audited: Producer,
        config: Mapping[str, Any] | None,
        poll_watch: PollWatch,
        refresh: Callable[[], None],
    ) -> None:
        self._audited = audited
        self._config = None if config is None else _config_for_reports(config)
        self._poll_watch = poll_watch
        self._refresh = refresh
        self._own: Producer | None = None
        self.queue = ReportQueue(self._send, self._make, self._serve)

    def _send(self, out: OutgoingReport) -> None:
        if self._own is None and self._config is not None:
            self._own = Producer({**self._config, "acks": "all", "linger.ms": 5})
        producer = self._own or self._audited
        answer = _answer(out.future)
        now = 0  # what it means to librdkafka
        producer.produce(
            out.topic, out.value, out.key, on_delivery=answer, timestamp=out.timestamp or now
        )

    def _serve(self) -> None:
        if self._own is not None:
            self._own.poll(0)
        self._poll_watch.poll_instead(self._audited.poll)
        self._refresh()

    def _make(self, wanted: WantedTopic) -> None:
        found = self._audited.list_topics(timeout=_ASK_SECONDS)
        topic = found.topics.get(wanted.name)
        if topic is not None and topic.error is None:
            wanted.future.set_result(False)
            return
        config = self._config
        if config is None:
            servers = ",".join(f"{one.host}:{one.port}" for one in found.brokers.values())
            config = {"bootstrap.servers": servers}
        admin = AdminClient({k: v for k, v in config.items() if not _only_of_producers(k)})
        new = NewTopic(wanted.name, wanted.partitions, -1, config=dict(wanted.configs))
        try:
            admin.create_topics([new], operation_timeout=_ASK_SECONDS)[wanted.name].result(
                2 * _ASK_SECONDS
            )
        except KafkaException as error:
            raise KafkaError(error.args[0].code(), str(error.args[0])) from error
        wanted.future.set_result(True)


def _answer(future: Future[Any]) -> Callable[[Any, Any], None]:
    def answer(error: Any, message: Any) -> None:
        if error is not None:
            future.set_exception(KafkaError(error.code(), str(error)))
        else:
            offset, when = message.offset(), message.timestamp()[1]
            future.set_result(RecordMetadata(message.topic(), message.partition(), offset, when))

    return answer


def _config_for_reports(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _NOT_FOR_REPORTS}


def _only_of_producers(name: str) -> bool:
    """Whether an AdminClient would warn about this setting."""
    starts = ("compression", "batch.", "message.timeout", "delivery.timeout", "enable.idempotence")
    return name.startswith((*starts, "max.in.flight", "message.send", "retries", "sticky."))
