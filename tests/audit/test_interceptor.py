"""The audit in the producer, with a producer of strings and cardboard: what it publishes, and that
nothing that goes wrong with the audit reaches the application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors import BatchTally, ProducerContext, ProducerInterceptor
from tallymark.deployment import AuditSettings, Deployment, dump_toml
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark_audit import producer_run
from tallymark_audit.claims import ClaimBook, Reporter, fold
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.events import FOREVER, AuditEvent, decode_event
from tallymark_audit.interceptor import AuditInterceptor, default_interceptor
from tallymark_audit.sides import Claim

W = 1000
INSTANCE = bytes(range(8))


@dataclass
class FakeProducer:
    """Calls an interceptor as a producer does; the audit topic is a list."""

    folder: Path | None
    cluster_id: str | None = "cluster-1"
    acks: int = -1
    backfill: bool = False
    instance: bytes = INSTANCE
    published: list[AuditEvent] = field(default_factory=list)
    futures: list[Future[Any]] = field(default_factory=list)
    topics: dict[str, Mapping[str, str]] = field(default_factory=dict)
    create_error: Exception | None = None
    publish_error: Exception | None = None
    held: bool = False
    sequence: int = 0
    log_end: int = 0
    interceptor: AuditInterceptor = field(init=False)

    def __post_init__(self) -> None:
        self.interceptor = AuditInterceptor(W, self.folder, report_interval_ms=100)
        context = ProducerContext(
            instance=self.instance,
            server="web-1",
            client_id="shop",
            acks=self.acks,
            backfill=self.backfill,
            publish=self._publish,
            create_topic=self._create,
            read_cluster_id=lambda: self.cluster_id,
        )
        self.interceptor.attach(context)

    def batch(self, *timestamps: int, topic: str = "t") -> BatchTally:
        first, self.sequence = self.sequence, self.sequence + len(timestamps)
        size = 10 * len(timestamps)
        return BatchTally(topic, 0, self.instance, "web-1", first, timestamps, size, self.backfill)

    def send(self, *timestamps: int) -> BatchTally:
        batch = self.batch(*timestamps)
        self.interceptor.on_send(batch)
        return batch

    def deliver(self, *timestamps: int) -> None:
        self.interceptor.on_acknowledged(self.send(*timestamps), 0)

    def tick(self, now: int, oldest: int | None = None) -> None:
        self.interceptor.on_tick(now, oldest)

    def close(self, now: int = 10**6) -> None:
        self.interceptor.on_close(now)

    @property
    def book(self) -> ClaimBook:
        return fold(self.published)

    @property
    def reporter(self) -> Reporter:
        (one,) = self.book.reporters.values()
        return one

    @property
    def claim(self) -> Claim:
        (one,) = self.book.claims().values()
        return one

    def _publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        assert topic == AUDIT_TOPIC
        future: Future[Any] = Future()
        self.futures.append(future)
        if self.publish_error is None:
            self.published.append(decode_event(value or b""))
        if not self.held:
            self.answer(future)
        return future

    def answer(self, future: Future[Any]) -> None:
        if self.publish_error is not None:
            future.set_exception(self.publish_error)
        else:
            self.log_end += 1
            future.set_result(RecordMetadata(AUDIT_TOPIC, 0, self.log_end - 1, 0))

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Future[bool]:
        future: Future[bool] = Future()
        if self.create_error is not None:
            future.set_exception(self.create_error)
        else:
            self.topics[name] = configs
            future.set_result(True)
        return future


@pytest.fixture
def producer(tmp_path: Path) -> Iterator[FakeProducer]:
    made = FakeProducer(tmp_path / "journal")
    yield made
    made.publish_error = None
    made.close()


def journals(producer: FakeProducer) -> list[str]:
    assert producer.folder is not None
    return [path.name for path in producer.folder.glob("*")]


def test_is_a_producer_interceptor() -> None:
    assert isinstance(AuditInterceptor(), ProducerInterceptor)


def test_claims_what_became_of_every_record(producer: FakeProducer) -> None:
    producer.deliver(1, 2, 3)
    producer.interceptor.on_failed(producer.send(4, 5), KafkaError(10), False)
    producer.interceptor.on_failed(producer.send(6), TimedOutError(""), True)
    producer.send(7)
    producer.tick(500)
    claim = producer.claim
    assert (str(claim.acknowledged), str(claim.failed), str(claim.in_doubt)) == ("0-2", "3-4", "5")
    assert str(claim.pending) == "6"
    assert (claim.count, claim.bytes, claim.key.server) == (7, 70, "web-1")
    assert (claim.min_timestamp, claim.max_timestamp) == (1, 7)


def test_a_batch_over_two_windows_makes_two_cells(producer: FakeProducer) -> None:
    producer.deliver(998, 999, 1000)
    producer.tick(2000)
    cells = {key.window: str(claim.claimed) for key, claim in producer.book.claims().items()}
    assert cells == {0: "0-1", W: "2"}


def test_complete_through_is_now_or_the_oldest_that_is_pending(producer: FakeProducer) -> None:
    producer.deliver(1)
    producer.tick(500)
    assert producer.reporter.complete_through == 500
    producer.tick(700, oldest=650)
    assert producer.reporter.complete_through == 650


def test_heartbeats_without_news(producer: FakeProducer) -> None:
    for now in range(1000, 2000, 50):
        producer.tick(now)
    assert len(producer.published) == 10
    assert producer.reporter.complete_through == 1900
    assert producer.published[-1].cells == ()


def test_makes_the_audit_topic_to_be_kept(producer: FakeProducer) -> None:
    producer.tick(100)
    assert producer.topics[AUDIT_TOPIC]["cleanup.policy"] == "delete"
    assert int(producer.topics[AUDIT_TOPIC]["retention.ms"]) > 30 * 86_400_000


def test_closing_publishes_the_last_report_and_removes_the_journal(producer: FakeProducer) -> None:
    producer.deliver(1, 2)
    assert journals(producer) == [f"{INSTANCE.hex()}.journal"]
    producer.close()
    assert producer.reporter.closed
    assert producer.reporter.complete_through == FOREVER
    assert journals(producer) == []


def test_a_last_report_that_does_not_arrive_leaves_the_journal(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path)
    producer.deliver(1, 2)
    producer.publish_error = TimedOutError("the broker is away")
    producer.close()
    assert journals(producer) == [f"{INSTANCE.hex()}.journal"]
    after = FakeProducer(tmp_path, instance=b"another!")
    after.tick(100)
    assert journals(after) == [f"{b'another!'.hex()}.journal"]
    told = fold(after.published)
    assert told.reporters[f"producer-{INSTANCE.hex()}"].closed
    assert [str(claim.acknowledged) for claim in told.claims().values()] == ["0-1"]
    after.close()


def test_reports_are_kept_until_they_are_acknowledged(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.publish_error = TimedOutError("the broker is away")
    for now in range(0, 1000, 100):
        producer.deliver(now)
        producer.tick(now)
    assert producer.published == []
    assert caplog.text.count("could not be published, it is kept") == 1
    producer.publish_error = None
    producer.tick(2000)
    assert str(producer.claim.acknowledged) == "0-9"
    assert producer.reporter.covered == producer.published[-1].event_number


def test_no_pile_of_reports_while_the_topic_is_slow(producer: FakeProducer) -> None:
    producer.held = True
    for now in range(0, 5000, 100):
        producer.tick(now)
    assert len(producer.futures) == producer_run.MAX_WAITING
    producer.held = False
    for future in producer.futures:
        producer.answer(future)
    producer.tick(6000)
    assert len(producer.futures) == producer_run.MAX_WAITING + 1


def test_a_topic_that_cannot_be_made_is_tried_again(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.create_error = KafkaError(CODES["POLICY_VIOLATION"])
    producer.deliver(1)
    for now in range(10**13, 10**13 + 20_000, 500):
        producer.tick(now)
    assert producer.published == []
    assert caplog.text.count("cannot be made") == 1
    producer.create_error = KafkaError(CODES["TOPIC_ALREADY_EXISTS"])
    for now in range(2 * 10**13, 2 * 10**13 + 1000, 500):
        producer.tick(now)
    assert str(producer.claim.acknowledged) == "0"


def test_an_offset_that_goes_back_makes_it_say_all_again(producer: FakeProducer) -> None:
    """The audit topic's log was cut: acknowledged reports are gone, and the offsets of what is
    published now begin again where the log ends."""
    for now in range(0, 1000, 100):
        producer.deliver(now)
        producer.tick(now)
    survivors = producer.published[:2]
    producer.published[:] = []
    producer.log_end = 2
    producer.tick(2000)
    producer.tick(2100)
    book = fold([*survivors, *producer.published])
    (reporter,) = book.reporters.values()
    assert reporter.complete_through == 2100
    assert [str(claim.acknowledged) for claim in book.claims().values()] == ["0-9"]


def test_a_backfill_is_complete_only_when_it_closes(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path, backfill=True)
    producer.deliver(5, 10**9)
    producer.tick(500)
    assert producer.reporter.complete_through == 0
    assert producer.reporter.backfill
    assert all(cell.skewed == 0 for event in producer.published for cell in event.cells)
    producer.close()
    assert producer.reporter.complete_through == FOREVER


def test_old_timestamps_of_a_live_producer_are_skewed(producer: FakeProducer) -> None:
    producer.deliver(5)  # 1970
    producer.tick(10**13)
    assert producer.published[-1].cells[0].skewed == 1


def test_with_acks_0_the_claim_is_what_was_accepted(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path, acks=0)
    producer.interceptor.on_acknowledged(producer.send(1, 2), -1)
    producer.send(3)
    producer.tick(500)
    assert str(producer.claim.claimed) == "0-2"
    producer.close()


def test_cells_at_rest_are_forgotten(producer: FakeProducer, monkeypatch: Any) -> None:
    clock = [10**13]
    monkeypatch.setattr(producer_run, "_now_ms", lambda: clock[0])
    for _ in range(100):
        producer.deliver(clock[0])
        producer.tick(clock[0])
        clock[0] += 30_000
    books = producer.interceptor.run._books()
    assert len(books.tally.cells) < 8
    claims = producer.book.claims().values()
    assert sum(claim.acknowledged.size for claim in claims) == 100
    producer.close()


def test_without_a_cluster_id_there_is_no_journal_and_no_report(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path / "journal", cluster_id=None)
    producer.deliver(1)
    producer.tick(100)
    assert producer.published == []
    assert not (tmp_path / "journal").exists()


def test_a_producer_that_never_sent_leaves_nothing(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path / "journal")
    producer.close()
    assert producer.published == []
    assert not (tmp_path / "journal").exists()


def test_a_fork_is_another_run(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path)
    producer.deliver(1)
    parent = producer.interceptor.run
    child = FakeProducer(tmp_path, instance=b"children")
    producer.interceptor.attach(child.interceptor.run.context)
    assert producer.interceptor.run is not parent
    assert producer.interceptor.run.context.instance == b"children"
    parent.close(1)


@pytest.mark.parametrize("how", ["settings", "nothing", "broken"])
def test_the_default_reads_the_deployment(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    if how != "nothing":
        deployment = Deployment(data_dir=tmp_path / "data", audit=AuditSettings(window_ms=5000))
        text = dump_toml(deployment) if how == "settings" else "= broken"
        (tmp_path / "tallymark.toml").write_text(text)
    made = default_interceptor().settings
    if how == "settings":
        assert (made.window_ms, made.journal_dir) == (5000, tmp_path / "data" / "journal")
    else:
        assert made.window_ms == 60_000
        assert made.journal_dir == tmp_path / ".local" / "state" / "tallymark" / "journal"
    assert ("the defaults are used" in caplog.text) == (how == "broken")
