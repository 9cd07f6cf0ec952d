"""What a mirror reports, and that no verdict waits for a mirror that was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tallymark.client.producing.stamps import Stamp
from tallymark.deployment import AuditSettings, Deployment, Mirror
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.judging.judge_loop import JudgeLoop
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event, encode_event
from tallymark_audit.events.events import AuditEvent, Copied, Gap
from tallymark_audit.model.cells import FOREVER
from tallymark_audit.model.edges import AUDIT_TOPIC, derive_edges
from tallymark_audit.reporters.books.tally import Outcome, ReporterIdentity, Run, Tally, TallyKey
from tallymark_audit.reporters.mirror import mirror_report
from tallymark_audit.reporters.mirror.mirror_report import MirrorReport, default_observer
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted.incidents import add_gap
from tallymark_audit.store.reading import queries
from tallymark_audit.testing import MemoryCluster, Told

W = 1000
AUDIT = AuditSettings(window_ms=W, settle_min_ms=500, silence_ms=3000, report_interval_ms=500)
RENAMING = Mirror(source="dc1", target="aggregate", rename="{source}.{topic}")


@dataclass
class Context:
    """A mirror as its observer sees it; the test answers what is published."""

    answer: Callable[[AuditEvent], Exception | None] = lambda event: None
    waiting: bool = False
    source: str = "dc1"
    target: str = "aggregate"
    client_id: str = "mirror-dc1-to-aggregate"
    deployment: Deployment = field(default_factory=lambda: Deployment(audit=AUDIT))
    topic_error: Exception | None = None
    asked: int = 0
    events: list[AuditEvent] = field(default_factory=list)
    futures: list[Future[Any]] = field(default_factory=list)

    def publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        assert topic == AUDIT_TOPIC
        event = decode_event(value or b"")
        assert (key, timestamp) == (event.reporter.encode(), event.emitted_at)
        self.events.append(event)
        future: Future[Any] = Future()
        self.futures.append(future)
        if not self.waiting:
            error = self.answer(event)
            future.set_exception(error) if error else future.set_result(None)
        return future

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> Future[bool]:
        assert (name, partitions, configs["cleanup.policy"]) == (AUDIT_TOPIC, 1, "delete")
        self.asked += 1
        future: Future[bool] = Future()
        if self.topic_error is None:
            future.set_result(True)
        else:
            future.set_exception(self.topic_error)
        return future


def attached(**settings: Any) -> tuple[MirrorReport, Context]:
    report, context = default_observer(), Context(**settings)
    report.attach(context)
    return report, context


def test_gaps_are_told_at_once_and_silence_is_broken_now_and_then() -> None:
    report, context = attached()
    report.on_tick(1000, None)
    report.on_tick(1200, None)  # nothing to tell, and not yet time
    report.on_copied("clicks", 0, 0, 4)
    report.on_gap("clicks", 0, 5, 8, "retention")
    report.on_gap("clicks", 1, 9, 9, "recreated")
    report.on_tick(1300, 1250)
    report.on_tick(1500, None)
    report.on_tick(1800, None)
    report.on_close(1900)
    assert [event.emitted_at for event in context.events] == [1000, 1300, 1800, 1900]
    told = context.events[1]
    assert [
        (gap.partition, gap.first_offset, gap.last_offset, gap.reason) for gap in told.gaps
    ] == [
        (0, 5, 7, "retention"),
    ]
    assert [event.complete_through for event in context.events] == [1000, 1250, 1800, FOREVER]
    assert [event.closed for event in context.events] == [False, False, False, True]
    assert {(event.kind, event.tier, event.instance, event.cells) for event in context.events} == {
        ("mirror", "mirror", "", ())
    }
    assert {event.reporter for event in context.events} == {"mirror-dc1-to-aggregate"}
    assert report.waiting == 0


def test_a_gap_is_told_again_until_it_is_acknowledged() -> None:
    report, context = attached(answer=lambda event: TimedOutError("not now"))
    report.on_gap("clicks", 0, 5, 6, "control")
    report.on_tick(1000, None)
    assert report.waiting == 1
    context.answer = lambda event: None
    report.on_gap("clicks", 0, 7, 8, "control")
    report.on_tick(1200, None)
    assert [gap.first_offset for gap in context.events[-1].gaps] == [5, 7]
    assert report.waiting == 0


def test_what_the_target_does_not_take_is_not_repeated_without_end() -> None:
    report, context = attached(waiting=True)
    for number in range(20):
        report.on_gap("clicks", 0, 2 * number, 2 * number + 1, "unknown")
        report.on_tick(1000 + 1000 * number, None)
    assert len(context.events) == 3
    assert report.waiting == 20
    context.futures[0].set_result(None)
    report.on_tick(50_000, None)
    assert len(context.events[-1].gaps) == 17


def test_many_gaps_make_several_events_and_too_many_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirror_report, "MAX_GAPS", 5000)
    report, context = attached()
    for number in range(6000):
        report.on_gap("clicks", 0, 2 * number, 2 * number + 1, "compaction")
    report.on_tick(1000, None)
    assert [len(event.gaps) for event in context.events] == [2000, 2000, 1000]
    assert "1000 more gaps" in caplog.text


def test_how_far_it_has_copied_is_told_when_it_is_news_and_now_and_then() -> None:
    report, context = attached(deployment=Deployment(audit=AUDIT, mirrors=(RENAMING,)))
    report.on_copied("clicks", 0, 100, 119)
    for now in range(1000, 13_000, 500):
        report.on_passed("clicks", 0, 120 if now < 3000 else 130, "ab" * 16)
        report.on_passed("clicks", 1, 7, "")
        report.on_tick(now, None)
    told = [event.copied for event in context.events]
    assert [[(one.partition, one.through_offset) for one in some] for some in told if some] == [
        [(0, 120), (1, 7)],
        [(0, 130)],
        [(0, 130), (1, 7)],
        [(0, 130), (1, 7)],
    ]
    assert told[0][0] == Copied("clicks", 0, "dc1.clicks", "ab" * 16, 120, 20)


def test_how_far_it_has_copied_is_told_again_until_it_is_acknowledged() -> None:
    report, context = attached(answer=lambda event: TimedOutError("not now"))
    report.on_passed("clicks", 0, 10, "")
    report.on_tick(1000, None)
    context.answer = lambda event: None
    report.on_passed("clicks", 0, 20, "")
    report.on_tick(2000, None)
    report.on_tick(3000, None)
    assert [[one.through_offset for one in event.copied] for event in context.events] == [
        [10],
        [20],
        [],
    ]


def test_a_partition_that_went_to_another_process_is_not_told_of_any_more() -> None:
    """Two processes of one mirror are one reporter. One that had given a partition up went on to
    repeat how far it had been, long after the other was further."""
    report, context = attached()
    report.on_passed("clicks", 0, 10, "")
    for now in range(1000, 21_000, 1000):
        report.on_tick(now, None)
    assert [len(event.copied) for event in context.events] == [1] + [0] * 19


def test_the_last_word_tells_of_all() -> None:
    report, context = attached()
    report.on_passed("clicks", 0, 10, "")
    report.on_tick(1000, None)
    report.on_passed("clicks", 0, 10, "")
    report.on_close(2000)
    assert [one.through_offset for one in context.events[-1].copied] == [10]


def test_a_topic_that_cannot_be_made_is_tried_again() -> None:
    report, context = attached(topic_error=TimedOutError("away"))
    report.on_gap("clicks", 0, 5, 6, "control")
    report.on_tick(1000, None)
    report.on_tick(2000, None)
    report.on_close(2500)
    assert context.events == []
    assert context.asked == 1
    context.topic_error = KafkaError(CODES["TOPIC_ALREADY_EXISTS"])
    report.on_tick(9000, None)
    report.on_tick(9200, None)
    assert [len(event.gaps) for event in context.events] == [1]


def test_the_next_run_goes_on_where_the_killed_one_was() -> None:
    """A mirror that is killed publishes nothing any more. The next one is the same reporter, so
    none stays open and silent; in whatever order its events are read."""
    first, killed = attached()
    for now in (1000, 2000, 3000):
        first.on_tick(now, None)
    second, context = attached()
    second.on_tick(60_000, 59_000)
    (alive,) = fold([*killed.events, *context.events]).reporters.values()
    assert (alive.closed, alive.complete_through, alive.last_heard) == (False, 59_000, 60_000)
    second.on_close(61_000)
    events = [*killed.events, *context.events]
    for order in (events, events[::-1], [*events, *events], events[2:]):
        (reporter,) = fold(order).reporters.values()
        assert (reporter.closed, reporter.complete_through) == (True, FOREVER)
        assert reporter.facts().ended
    third, context = attached()
    third.on_tick(70_000, None)
    (again,) = fold([*events, *context.events]).reporters.values()
    assert (again.closed, again.complete_through) == (False, 70_000)


def test_a_process_that_leaves_does_not_end_the_mirror() -> None:
    """A second process of a mirror was started by hand and stopped again: the reporter was closed
    for ever, though the first one went on, since its numbers are below those of the second. When
    it was killed later nobody called it silent."""
    first, context = attached()
    first.on_tick(1000, None)
    second, other = attached()
    second.on_tick(2000, None)
    second.on_close(3000)
    stayed = fold([*context.events, *other.events])
    assert stayed.reporters["mirror-dc1-to-aggregate"].closed, "nobody else was heard of since"
    first.on_tick(4000, 3900)
    events = sorted([*context.events, *other.events], key=lambda one: one.emitted_at)
    for order in (events, [*events, *events]):
        (reporter,) = fold(order).reporters.values()
        assert (reporter.closed, reporter.last_heard) == (False, 4000)
        assert reporter.complete_through == 3900
    first.on_close(5000)
    (reporter,) = fold([*other.events, *context.events]).reporters.values()
    assert reporter.closed


class World:
    """Two clusters, a mirror between them, their collectors, and one store; time is a number."""

    def __init__(self, store: Store, folder: Path) -> None:
        deployment = Deployment(data_dir=folder, audit=AUDIT)
        edges = derive_edges(deployment)
        self.store, self.now, self.copied = store, 10_000, 0
        self.clusters = {name: MemoryCluster(at_once=20) for name in ("dc1", "aggregate")}
        self.steps: list[Callable[[], object]] = []
        for name, cluster in self.clusters.items():
            cluster.log("t")
            cluster.log(AUDIT_TOPIC)
            collector = Collector(
                store,
                cluster,
                CollectorSettings(name, W, max_wait_ms=0),
                name,
                clock=lambda: self.now,
            )
            collector.start()
            judge = JudgeLoop(collector.ledger, edges, AUDIT)
            self.steps += [collector.step, partial(self._judge, judge)]
        code = "61" * 8
        self.tally = Tally(ReporterIdentity(f"producer-{code}", "web", "app", code, W, 0))
        self.sequence = 0

    def _judge(self, judge: JudgeLoop) -> None:
        judge.step(self.now)

    def mirror(self) -> MirrorReport:
        """A new run of the mirror."""
        report = MirrorReport()
        context = Context()
        report.attach(context)

        def told(event: AuditEvent) -> None:
            value = encode_event(event)
            self.clusters["aggregate"].log(AUDIT_TOPIC).append([Told(None, self.now, value)])

        context.answer = told
        return report

    def run(self, ms: int, report: MirrorReport | None, publish: bool = True) -> None:
        """Publish, copy and report every second."""
        source, target = self.clusters["dc1"], self.clusters["aggregate"]
        for _ in range(0, ms, 1000):
            self.now += 1000
            if publish:
                self._publish(source)
            if report is not None:
                for batch in source.log("t").batches[self.copied :]:
                    target.log("t").append_records(
                        [
                            (one.key, one.value, one.headers, one.timestamp)
                            for one in batch.records()
                        ]
                    )
                self.copied = len(source.log("t").batches)
                report.on_passed("t", 0, source.log("t").end, "")
                report.on_tick(self.now, None)
            for step in self.steps:
                step()

    def _publish(self, source: MemoryCluster) -> None:
        key = TallyKey("t", 0, self.now - self.now % W)
        run = Run(key, self.sequence, self.sequence + 9, self.now, self.now)
        self.tally.accept(run, 10, self.now)
        self.tally.settle(key, Outcome.ACKNOWLEDGED, run.first, run.last, self.now)
        stamps = [Stamp(b"a" * 8, 0, self.sequence + at, "web") for at in range(10)]
        source.log("t").append([Told(stamp, self.now) for stamp in stamps])
        self.sequence += 10
        self.report_producer()

    def report_producer(self, closed: bool = False) -> None:
        for event in self.tally.report(self.now, self.now, closed):
            self.tally.published(event.event_number)
            value = encode_event(event)
            self.clusters["dc1"].log(AUDIT_TOPIC).append([Told(None, self.now, value)])

    def states(self, edge: str) -> set[str]:
        with self.store.read() as connection:
            return {row["state"] for row in queries.windows(connection, edge)}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        yield World(store, tmp_path)


def test_a_killed_mirror_leaves_no_window_unknown(world: World) -> None:
    """Killed with kill -9, away for longer than any reporter may be silent, started again: every
    window is decided, and the list of reporters shows one mirror that lives."""
    killed = world.mirror()
    killed.on_gap("t", 0, 3, 4, "control")
    world.run(3000, killed)
    world.run(8000, None)
    assert "LOSS" not in world.states("dc1-to-aggregate"), "it lies behind what was copied"
    assert "UNKNOWN" in world.states("dc1-to-aggregate"), "and nobody knows if it will be"
    again = world.mirror()
    world.run(2000, again)
    world.report_producer(closed=True)
    world.run(3000, again, publish=False)
    for edge in ("producer-to-dc1", "dc1-to-aggregate"):
        assert world.states(edge) == {"COMPLETE"}
    assert world.states("producer-to-aggregate") <= {"COMPLETE"}
    with world.store.read() as connection:
        live = queries.all_reporters(connection, live_only=True)
    assert [(row["reporter"], row["tier"]) for row in live] == [
        ("mirror-dc1-to-aggregate", "mirror")
    ]
    assert live[0]["last_heard"] == world.now
    again.on_close(world.now)
    # And while the mirror is away for good, its silence alone makes nothing unknown.
    world.run(5000, None, publish=False)
    assert world.states("dc1-to-aggregate") == {"COMPLETE"}
    with world.store.read() as connection:
        assert queries.all_reporters(connection, live_only=True) == []


def test_the_gap_of_an_event_is_what_the_schema_says() -> None:
    report, context = attached()
    report.on_gap("clicks", 3, 10, 20, "truncation")
    report.on_tick(1000, None)
    (gap,) = context.events[0].gaps
    assert gap == Gap("clicks", 3, 10, 19, "truncation", gap.at)
    assert gap.at > 1_600_000_000_000


def test_batch_after_batch_that_is_left_out_is_one_gap() -> None:
    """A thousand bad batches a second were a thousand gaps, and as many incidents."""
    report, context = attached()
    for at in range(0, 5000, 5):
        report.on_gap("clicks", 0, at, at + 5, "corrupt")
    report.on_gap("clicks", 0, 5001, 5002, "corrupt")
    report.on_gap("clicks", 0, 5002, 5003, "control")
    report.on_tick(1000, None)
    (event,) = context.events
    assert [(gap.first_offset, gap.last_offset, gap.reason) for gap in event.gaps] == [
        (0, 4999, "corrupt"),
        (5001, 5001, "corrupt"),
        (5002, 5002, "control"),
    ]


def test_what_a_mirror_left_out_is_one_incident_a_day_and_partition(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        with store.write() as connection:
            for at in (*range(0, 2000, 10), *range(0, 2000, 10)):  # told once more
                gap = Gap("clicks", 0, at, at + 4, "corrupt", 1000 + at)
                add_gap(connection, "aggregate", "mirror-dc1-to-aggregate", gap)
        with store.read() as connection:
            (row,) = queries.all_incidents(connection)
    assert (row["count"], row["from_offset"], row["to_offset"]) == (200, 0, 1995)
    assert row["kind"] == "gap"
    assert "cannot be read" in row["reason"]
