"""The audit in the producer, with a producer of strings and cardboard: what it publishes, and that
nothing that goes wrong with the audit reaches the application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors.producer_interceptor import (
    ProducerContext,
    ProducerInterceptor,
)
from tallymark.deployment import AuditSettings, Deployment, dump_toml
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark_audit.events.claim_book import ClaimBook, Reporter, fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import FOREVER, Block, Summary, window_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.hashing import BLOCK, MASK, content, fingerprint
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim
from tallymark_audit.reporters.producer import producer_run
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor, default_interceptor

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
    more: dict[str, Any] = field(default_factory=dict)
    interceptor: AuditInterceptor = field(init=False)

    def __post_init__(self) -> None:
        self.interceptor = AuditInterceptor(W, self.folder, report_interval_ms=100, **self.more)
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

    def send(self, *timestamps: int, **more: Any) -> BatchTally:
        batch = replace(self.batch(*timestamps), **more)
        self.interceptor.on_send(batch)
        return batch

    def deliver(self, *timestamps: int) -> None:
        self.interceptor.on_acknowledged(self.send(*timestamps), 0)

    def tick(self, now: int, oldest: int | None = None) -> None:
        self.interceptor.on_tick(now, oldest)

    def flush(self, now: int, oldest: int | None = None) -> None:
        self.interceptor.on_flush(now, oldest)

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


def test_a_damaged_journal_is_counted_and_hurts_nobody(producer: FakeProducer) -> None:
    assert producer.folder is not None
    producer.folder.mkdir()
    (producer.folder / "0011223344556677.journal").write_bytes(b"what is this")
    producer.deliver(1)
    producer.tick(500)
    assert str(producer.claim.acknowledged) == "0"
    assert producer.interceptor.troubles.journals_damaged == 1
    producer.close()
    assert journals(producer) == ["0011223344556677.bad"]


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


def test_a_report_that_cannot_so_much_as_leave_is_made_up_for(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """publish() itself failed: the report was waited for, and after three of them no more came."""

    def closed(event: AuditEvent) -> bytes:
        raise ValueError("cannot be encoded")

    with monkeypatch.context() as broken:
        broken.setattr(producer_run, "encode_event", closed)
        for now in range(0, 1000, 100):
            producer.deliver(now)
            producer.tick(now)
    assert producer.interceptor.troubles.reports_failed == 9
    producer.tick(2000)
    assert str(producer.claim.acknowledged) == "0-9"


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


# --- flush --------------------------------------------------------------------------------------


def test_flush_reports_what_was_acknowledged(producer: FakeProducer) -> None:
    producer.deliver(1, 2)
    producer.flush(500)
    assert str(producer.claim.acknowledged) == "0-1"
    assert producer.reporter.complete_through == 500


def test_a_flush_after_every_record_does_not_make_a_report_of_each(producer: FakeProducer) -> None:
    for now in range(1000, 2000, 10):
        producer.deliver(now)
        producer.flush(now)
    assert len(producer.published) == 5
    producer.tick(2000)  # not due yet but for the flush
    claims = producer.book.claims().values()
    assert sum(claim.acknowledged.size for claim in claims) == 100


def test_a_flush_without_news_says_nothing(producer: FakeProducer) -> None:
    producer.flush(500)
    producer.deliver(1)
    producer.flush(1000)
    producer.flush(2000)
    assert len(producer.published) == 1


def test_a_flush_does_not_wait_for_a_topic_that_cannot_be_written(producer: FakeProducer) -> None:
    producer.held = True
    producer.deliver(1)
    for now in range(1000, 9000, 1000):
        producer.deliver(now)
        producer.flush(now)
    assert len(producer.futures) == producer_run.MAX_WAITING
    producer.held = False
    for future in producer.futures:
        producer.answer(future)
    producer.tick(9001)
    assert sum(claim.acknowledged.size for claim in producer.book.claims().values()) == 9


# --- contents, latency, bounds ------------------------------------------------------------------


def test_only_acknowledged_records_are_in_the_contents(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path, more={"content_check": True})
    one = producer.send(1, 2, values=[b"a", None], keys=[None, b"k"])
    two = producer.send(3, values=[b"refused"])
    three = producer.send(4, 5, values=[b"c", b"d"])
    producer.interceptor.on_acknowledged(three, 0)
    producer.interceptor.on_failed(two, KafkaError(10), False)
    producer.interceptor.on_acknowledged(one, 0)
    producer.tick(500)
    hashes = [content(0, None, b"a"), content(1, b"k", None)]
    hashes += [content(3, None, b"c"), content(4, None, b"d")]
    assert producer.claim.blocks == (Block(0, 4, sum(hashes) & MASK),)
    producer.close()


def test_contents_are_cut_at_windows_and_blocks(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path, more={"content_check": True})
    producer.sequence = BLOCK - 2
    values = [b"%d" % number for number in range(4)]
    batch = producer.send(1, 2, 3, W, values=values)
    producer.interceptor.on_acknowledged(batch, 0)
    producer.tick(500)
    blocks = {key.window: claim.blocks for key, claim in producer.book.claims().items()}
    hashes = [content(BLOCK - 2 + at, None, value) for at, value in enumerate(values)]
    assert blocks == {
        0: (Block(0, 2, sum(hashes[:2]) & MASK), Block(1, 1, hashes[2])),
        W: (Block(1, 1, hashes[3]),),
    }
    producer.close()


def test_contents_are_not_looked_at_unless_asked_for(producer: FakeProducer) -> None:
    class Untouchable(list[bytes]):
        def __getitem__(self, at: Any) -> Any:
            raise AssertionError("looked at")

    producer.interceptor.on_acknowledged(producer.send(1, 2, values=Untouchable()), 0)
    producer.tick(500)
    assert producer.claim.blocks == ()
    assert producer.claim.acknowledged.size == 2


def test_halves_of_a_batch_that_was_split_carry_their_own_contents(tmp_path: Path) -> None:
    producer = FakeProducer(tmp_path, more={"content_check": True})
    whole = producer.send(1, 2, W, W + 1, values=[b"a", b"b", b"c", b"d"])
    parts = [
        replace(whole, timestamps=whole.timestamps[:3], values=[b"a", b"b", b"c"]),
        replace(whole, first_sequence=3, timestamps=whole.timestamps[3:], values=[b"d"]),
    ]
    producer.interceptor.on_split(whole, parts)
    producer.interceptor.on_acknowledged(parts[1], 0)
    producer.interceptor.on_failed(parts[0], KafkaError(10), False)
    producer.tick(500)
    claims = {key.window: claim for key, claim in producer.book.claims().items()}
    assert (str(claims[0].failed), claims[0].blocks) == ("0-1", ())
    assert (str(claims[W].failed), str(claims[W].acknowledged)) == ("2", "3")
    assert claims[W].blocks == (Block(0, 1, content(3, None, b"d")),)
    producer.close()


def test_latency_is_from_the_stamp_to_the_acknowledgement(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10**12]
    monkeypatch.setattr(producer_run, "now_ms", lambda: clock[0])
    batch = producer.send(*[10**12] * 9)
    late = producer.send(10**12 - 1000)
    skewed = producer.send(0)
    refused = producer.send(10**12)
    clock[0] += 40
    for one in (batch, late, skewed):
        producer.interceptor.on_acknowledged(one, 0)
    producer.interceptor.on_failed(refused, KafkaError(10), False)
    producer.tick(10**12 + 500)
    sketch = sketches.merged(
        sketches.from_list(claim.latency) for claim in producer.book.claims().values()
    )
    assert sum(sketch.values()) == 10  # neither the refused one nor the one stamped in 1970
    assert abs((sketches.quantile(sketch, 0.5) or 0) - 40) < 2
    assert abs((sketches.quantile(sketch, 1) or 0) - 1040) < 22


@pytest.mark.parametrize("how", [{"acks": 0}, {"backfill": True}])
def test_latency_that_means_nothing_is_not_told(tmp_path: Path, how: dict[str, Any]) -> None:
    producer = FakeProducer(tmp_path, **how)
    producer.deliver(5)
    producer.tick(500)
    assert producer.claim.latency == ()
    producer.close()


@pytest.mark.parametrize("timestamp", [-1, 0, 2**63 - 1])
def test_absurd_timestamps_are_claimed_in_their_window_as_skewed(
    producer: FakeProducer, timestamp: int
) -> None:
    producer.deliver(timestamp, timestamp)
    producer.tick(500)
    claim = producer.claim
    assert claim.key.window == window_of(timestamp, W)
    assert (claim.count, claim.skewed, str(claim.acknowledged)) == (2, 2, "0-1")
    assert (claim.min_timestamp, claim.max_timestamp) == (timestamp, timestamp)


def test_a_cell_with_too_many_ranges_is_counted_and_hashed(tmp_path: Path) -> None:
    """Every other record belongs to another window."""
    producer = FakeProducer(tmp_path, more={"max_ranges": 100})
    for _ in range(100):
        producer.deliver(*[1, W] * 5)
    producer.interceptor.on_failed(producer.send(2, 3), KafkaError(10), False)
    producer.tick(500)
    assert producer.interceptor.troubles.cells_counted == 2
    claims = {key.window: claim for key, claim in producer.book.claims().items()}
    even = fingerprint(RangeSet.of(range(0, 1000, 2)))
    assert claims[0].summary == Summary(502, 500, 2, 0, even)
    odd = fingerprint(RangeSet.of(range(1, 1000, 2)))
    assert claims[W].summary == Summary(500, 500, 0, 0, odd)
    assert not claims[0].known
    assert producer.reporter.complete_through == 500
    producer.close()
    assert journals(producer) == []


def test_reports_too_large_for_the_cluster_are_made_smaller(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3000):
        producer.deliver(1, W)
    producer.publish_error = KafkaError(CODES["MESSAGE_TOO_LARGE"])
    for now in range(1000, 2000, 100):
        producer.tick(now)
    producer.publish_error = None
    producer.tick(3000)
    claims = producer.book.claims().values()
    assert all(claim.summary and claim.summary.acknowledged == 3000 for claim in claims)
    assert producer.reporter.complete_through == 3000
    assert producer.interceptor.troubles.reports_failed >= 10


def test_a_long_report_is_followed_by_a_pause(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that reports of very many cells leave the producer's thread to the producer: half of the
    time, and nine tenths while the audit topic cannot be written."""
    spent = iter(range(0, 10**15, 150_000_000))
    monkeypatch.setattr("time.thread_time_ns", lambda: next(spent))
    producer.deliver(1)
    for now in range(1000, 1500, 100):
        producer.tick(now)
    assert [event.emitted_at for event in producer.published] == [1000, 1300]
    producer.publish_error = TimedOutError("away")
    for now in range(2000, 4000, 100):
        producer.tick(now)
    assert producer.interceptor.troubles.reports_failed == 2  # at 2000 and at 3500


@pytest.mark.slow
def test_timestamps_all_over_time_do_not_fill_the_memory(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record opens a cell. As long as the audit topic takes the reports, every record is
    claimed, and what is settled and told is soon forgotten."""
    monkeypatch.setattr(producer_run, "LONG_MS", 10**9)
    books = producer.interceptor.run._books()
    books.tally.max_cells = 400
    highest = 0
    for turn in range(50):
        producer.deliver(*(number * W for number in range(turn * 50, turn * 50 + 50)))
        highest = max(highest, len(books.tally.cells))
        producer.tick(10**9 + turn)  # sooner than a report is due
    assert highest <= 400
    producer.close()
    claims = producer.book.claims()
    assert len(claims) == 2500
    assert all(claim.acknowledged.size == 1 for claim in claims.values())
    assert producer.interceptor.troubles.records_left_out == 0
    assert producer.reporter.closed


def test_what_there_is_no_room_for_is_never_taken_as_complete(
    producer: FakeProducer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The audit topic is away, and every record is stamped into another window."""
    producer.publish_error = TimedOutError("the broker is away")
    books = producer.interceptor.run._books()
    books.tally.max_cells = 50
    for number in range(100, 300):
        producer.deliver(number * W)
        producer.tick(number * W)
    assert len(books.tally.cells) == 50
    assert producer.interceptor.troubles.records_left_out == 150
    assert caplog.text.count("some records are not claimed") == 1
    producer.deliver(100 * W)  # into a cell there is: claimed all the same
    producer.publish_error = None
    producer.tick(2000 * W)
    assert producer.reporter.complete_through == 150 * W
    claims = producer.book.claims().values()
    assert sum(claim.acknowledged.size for claim in claims) == 51
    producer.close()
    assert not producer.reporter.closed
    assert producer.reporter.complete_through == 150 * W


def test_what_was_left_out_is_remembered_over_a_death(
    producer: FakeProducer, tmp_path: Path
) -> None:
    producer.publish_error = TimedOutError("the broker is away")
    producer.interceptor.run._books().tally.max_cells = 2
    for number in range(5):
        producer.deliver(number * W)
    producer.interceptor.run._books().close(remove=False)  # as a death leaves it
    producer.publish_error = None
    after = FakeProducer(tmp_path / "journal", instance=b"another!")
    after.tick(100)
    told = fold(after.published).reporters[f"producer-{INSTANCE.hex()}"]
    assert (told.closed, told.complete_through) == (False, 2 * W)
    after.close()


def test_cells_at_rest_are_forgotten(producer: FakeProducer, monkeypatch: Any) -> None:
    clock = [10**13]
    monkeypatch.setattr(producer_run, "now_ms", lambda: clock[0])
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
        audit = AuditSettings(
            window_ms=5000, content_check=True, max_ranges=123, retention_ms=2 * 86_400_000
        )
        deployment = Deployment(data_dir=tmp_path / "data", audit=audit)
        text = dump_toml(deployment) if how == "settings" else "= broken"
        (tmp_path / "tallymark.toml").write_text(text)
    made = default_interceptor().settings
    if how == "settings":
        assert (made.window_ms, made.journal_dir) == (5000, tmp_path / "data" / "journal")
        assert (made.content_check, made.max_ranges) == (True, 123)
        assert made.retention_ms == 2 * 86_400_000
    else:
        assert made.window_ms == 60_000
        assert made.journal_dir == tmp_path / ".local" / "state" / "tallymark" / "journal"
    assert ("the defaults are used" in caplog.text) == (how == "broken")


def test_nothing_is_reported_behind_the_last_report(tmp_path: Path) -> None:
    """While the closing report waited for its acknowledgement a tick published an ordinary one
    behind it: the run counted as not closed, and its last window stayed UNKNOWN for ever."""
    producer = FakeProducer(tmp_path)
    producer.deliver(1000)
    producer.tick(2000)
    producer.held = True
    producer.interceptor.on_close(2100)
    told = len(producer.published)
    producer.tick(5000)
    producer.interceptor.on_flush(6000, None)
    assert len(producer.published) == told
    assert producer.published[-1].closed
