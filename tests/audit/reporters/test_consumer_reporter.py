"""The consumer's reports: when they are made, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors.producer_interceptor import (
    ProducerContext,
    ProducerInterceptor,
)
from tallymark.errors import CODES, KafkaError
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally import ReporterIdentity
from tallymark_audit.reporters.consumer.reporter import ConsumerReporter
from tallymark_audit.reporters.journal.consumer_writer import ConsumerJournal

PLACE = ("t", 0)


@dataclass
class Rig:
    """A reporter whose producer is a list; ``made`` is the making of the topic."""

    made: Future[bool] = field(default_factory=Future)
    error: Exception | None = None
    oldest: int | None = None
    events: list[AuditEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        identity = ReporterIdentity("consumer-1", "app-1", "", "00" * 8, 1000, 0, kind="consumer")
        journal = ConsumerJournal(None, identity, "g", 1000, 10**9)
        self.books = journal.processing.books
        self.reporter = ConsumerReporter(journal, lambda: self.oldest, 100)
        self.reporter.attach(
            ProducerContext(
                instance=b"instance",
                server="app-1",
                client_id="audit",
                acks=-1,
                backfill=False,
                publish=self._publish,
                create_topic=self._create,
                read_cluster_id=lambda: None,
            )
        )

    def process(self, first: int, count: int) -> None:
        key = CellKey("t", 0, 0, "web", b"instance".hex())
        self.books.add(SeenRun(key, first, first, count=count), PLACE, 0)

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Future[bool]:
        return self.made

    def _publish(self, topic: str, key: Any, value: Any, timestamp: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.error is not None:
            future.set_exception(self.error)
        else:
            self.events.append(decode_event(value))
            future.set_result(RecordMetadata(topic, 0, len(self.events), 0))
        return future


def test_is_a_producer_interceptor() -> None:
    assert isinstance(Rig().reporter, ProducerInterceptor)


def test_a_run_that_is_shorter_than_the_making_of_its_topic_is_told_all_the_same() -> None:
    """A consumer that was closed before the audit topic was known to be there told nothing at all:
    the last report waited for the topic like all others, and there was no later one."""
    rig = Rig()
    rig.process(0, 5)
    rig.reporter.on_tick(1000, None)
    assert rig.events == []
    rig.reporter.on_close(2000)
    (claim,) = fold(rig.events).processed("g")
    assert (str(claim.acknowledged), rig.events[-1].closed) == ("0-4", True)


def test_reports_are_made_when_it_is_time_to_also_without_news() -> None:
    rig = Rig()
    rig.made.set_result(True)
    for now in range(1000, 2000, 50):
        rig.reporter.on_tick(now, None)
    assert [event.emitted_at for event in rig.events] == list(range(1000, 2000, 100))


def test_what_is_in_hand_holds_back_what_is_complete() -> None:
    rig = Rig(oldest=700)
    rig.made.set_result(True)
    rig.reporter.on_tick(1000, None)
    rig.oldest = None
    rig.reporter.on_tick(1100, None)
    assert [event.complete_through for event in rig.events] == [700, 1100]


def test_publishing_says_whether_the_report_is_there() -> None:
    rig = Rig()
    assert rig.reporter.publish(1000, 0), "nothing to say"
    rig.process(0, 5)
    assert not rig.reporter.publish(1000, 0), "the topic is not there"
    rig.made.set_result(True)
    rig.error = KafkaError(CODES["NOT_ENOUGH_REPLICAS"])
    assert not rig.reporter.publish(1000, 1)
    rig.error = None
    assert rig.reporter.publish(1000, 1)
    assert rig.reporter.publish(1000, 1), "all is told"
    (claim,) = fold(rig.events).processed("g")
    assert str(claim.acknowledged) == "0-4"


def test_a_log_that_was_cut_is_told_again() -> None:
    rig = Rig()
    rig.made.set_result(True)
    rig.process(0, 5)
    assert rig.reporter.publish(1000, 1)
    rig.events.clear()  # so the next offset is one that was there before
    rig.process(5, 5)
    assert rig.reporter.publish(1100, 1)
    rig.reporter.on_tick(2000, None)
    (claim,) = fold(rig.events).processed("g")
    assert str(claim.acknowledged) == "0-9"
