"""An audited confluent-kafka producer over one in memory: every record handed over is claimed under
the number in its stamp, with the end that was reported, whatever order things happen in."""

from __future__ import annotations

import dis
import gc
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.adapters.confluent import CALLBACK_SECONDS, AuditedProducer
from tallymark_audit.reporters.adapters.confluent_delivery import delivery_reports
from tallymark_audit.reporters.adapters.confluent_reports import PollWatch
from tallymark_audit.reporters.adapters.confluent_topics import AuditedTopics
from tallymark_audit.reporters.adapters.partitioners import PARTITIONERS
from tallymark_audit.reporters.adapters.record_path import PAGE
from tallymark_audit.reporters.adapters.run import AdapterRun
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.testing import MemoryProducer

W = 1000
LOST = KafkaError(KafkaError._MSG_TIMED_OUT)
REFUSED = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


@dataclass
class Rig:
    """The parts that ``audited()`` puts together, with reports into a list."""

    folder: Path | None = None
    inner: MemoryProducer = field(default_factory=MemoryProducer)
    events: list[AuditEvent] = field(default_factory=list)
    producer: AuditedProducer = field(init=False)
    run: AdapterRun = field(init=False)

    def __post_init__(self) -> None:
        interceptor = AuditInterceptor(W, self.folder, report_interval_ms=0)
        context = ProducerContext(
            instance=b"instance",
            server="web",
            client_id="shop",
            acks=-1,
            backfill=False,
            publish=self._publish,
            create_topic=lambda *_: _done(True),
            read_cluster_id=lambda: "memory",
        )
        self.run = AdapterRun(interceptor, context, self)
        pending: deque[Any] = deque()
        topics = AuditedTopics(
            self.inner,
            self.run,
            PARTITIONERS["consistent_random"],
            ".*",
            partial(delivery_reports, pending.append),
            self.inner.only_errors,
        )
        self.producer = AuditedProducer(
            self.inner, self.run, topics, PollWatch(True), None, pending
        )

    def serve(self) -> None:
        """As a publisher."""

    def close(self, seconds: float) -> None:
        """As a publisher."""

    def claims(self) -> dict[int, dict[str, set[int]]]:
        """By partition, the numbers under each end."""
        found: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for key, claim in fold(self.events).claims().items():
            for name in ("accepted", "acknowledged", "failed", "in_doubt", "aborted"):
                for first, last in getattr(claim, name):
                    found[key.partition][name] |= set(range(first, last + 1))
        return found

    def windows(self) -> dict[tuple[int, int], int]:
        """The window each number of a partition is claimed in."""
        return {
            (key.partition, number): key.window
            for key, claim in fold(self.events).claims().items()
            for first, last in claim.accepted
            for number in range(first, last + 1)
        }

    def stamps(self) -> list[Stamp]:
        """Of what was handed over, in order."""
        found = [stamp_of(record.headers) for record in self.inner.handed]
        assert all(isinstance(stamp, Stamp) for stamp in found)
        return [stamp for stamp in found if isinstance(stamp, Stamp)]

    def _publish(self, topic: str, key: Any, value: Any, timestamp: Any) -> Future[Any]:
        assert topic == AUDIT_TOPIC
        self.events.append(decode_event(value))
        return _done(RecordMetadata(topic, 0, len(self.events), 0))


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


@pytest.fixture(params=[False, True], ids=["all reports", "only errors"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "journal", MemoryProducer(only_errors=request.param))
    yield made
    made.run.close()


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Rig]:
    """The producer reports deliveries too."""
    made = Rig(tmp_path / "journal")
    yield made
    made.run.close()


def test_what_is_delivered_is_claimed(rig: Rig) -> None:
    for number in range(10):
        rig.producer.produce("t", f"v{number}", partition=1)
    assert rig.producer.flush() == 0
    rig.run.tick()
    assert rig.claims()[1]["acknowledged"] == set(range(10))
    assert [(stamp.partition, stamp.sequence) for stamp in rig.stamps()] == [
        (1, number) for number in range(10)
    ]
    (claim,) = fold(rig.events).claims().values()
    assert (claim.count, claim.bytes) == (10, 20)


def test_a_full_queue_burns_no_number(rig: Rig) -> None:
    rig.inner.room = 2
    for _ in range(2):
        rig.producer.produce("t", b"v", partition=0)
    for _ in range(3000):  # as an application that tries again and again
        with pytest.raises(BufferError):
            rig.producer.produce("t", b"v", partition=0)
    rig.inner.deliver()
    rig.inner.deliver()
    rig.producer.poll(0)
    rig.producer.produce("t", b"v", partition=0)
    assert [stamp.sequence for stamp in rig.stamps()] == [0, 1, 2]
    rig.producer.flush()
    rig.run.tick()
    assert rig.claims()[0]["accepted"] == {0, 1, 2}


def test_a_number_that_others_have_overtaken_is_declared_failed(rig: Rig) -> None:
    def interrupt() -> None:  # as a signal handler, while the first is handed over
        rig.producer.produce("t", b"second", partition=0)
        raise BufferError

    rig.inner.interrupt = interrupt
    with pytest.raises(BufferError):
        rig.producer.produce("t", b"first", partition=0)
    rig.producer.flush()
    rig.run.tick()
    assert rig.claims()[0] == {"accepted": {0, 1}, "failed": {0}, "acknowledged": {1}}


CHECKED_AFTER = ("RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
"""Instructions behind which Python runs signal handlers."""


def interrupted(call: Callable[[], object], number: int) -> bool:
    """Call it, and let a signal handler raise in ``AuditedProducer.produce`` where one may run for
    the ``number``-th time; whether there is such a place."""
    code = AuditedProducer.produce.__code__
    names = [(one.offset, one.opname) for one in dis.get_instructions(code)]
    places = {place for (_, name), (place, _) in pairwise(names) if name in CHECKED_AFTER}
    left = number

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in places:
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("asked", [False, True])
def test_a_signal_handler_that_raises_anywhere(rig: Rig, asked: bool) -> None:
    """Ctrl-C in ``produce()``: where the producer had taken the record already, its number was
    given to the next one too, which the audit shows as a duplicate. Nor may the lock stay taken."""
    tell = (lambda *_: None) if asked else None
    rig.producer.produce("t", b"v", partition=0)
    number = 0
    while interrupted(
        lambda: rig.producer.produce("t", b"v", partition=0, headers={}, on_delivery=tell), number
    ):
        number += 1
        assert not rig.run.lock._is_owned()  # type: ignore[attr-defined]
        rig.producer.produce("t", b"v", partition=0)
    assert number > 5
    rig.producer.flush()
    rig.run.tick()
    handed = [stamp.sequence for stamp in rig.stamps()]
    assert handed == list(range(len(handed)))
    assert len(handed) > number + 2, "some were taken before the handler raised"
    assert rig.claims()[0] == {"accepted": set(handed), "acknowledged": set(handed)}


def test_errors_are_refusals_or_doubts(rig: Rig) -> None:
    for _ in range(3):
        rig.producer.produce("t", b"v", partition=0)
    rig.inner.deliver(1, REFUSED)
    rig.inner.deliver(1, LOST)
    rig.inner.deliver(0)
    rig.producer.poll(0)
    rig.run.tick()
    assert rig.claims()[0] == {
        "accepted": {0, 1, 2},
        "acknowledged": {0},
        "failed": {1},
        "in_doubt": {2},
    }


def test_the_applications_callbacks_are_told_what_the_books_hold_already(reporting: Rig) -> None:
    told: list[tuple[Any, bool]] = []

    def tell(error: Any, message: Any) -> None:
        journal = reporting.run._interceptor.run._journal
        assert journal is not None
        held = any(cell.outcome(1).size for cell in journal.tally.cells.values())  # type: ignore[arg-type]
        told.append((message.value, held))

    reporting.producer.produce("t", b"v", partition=0, on_delivery=tell)
    reporting.inner.deliver()
    reporting.producer.poll(0)
    assert told == [(b"v", True)]


def test_a_callback_that_raises_leaves_the_others_to_the_next_poll(reporting: Rig) -> None:
    told: list[bytes] = []

    def tell(error: Any, message: Any) -> None:
        told.append(message.value)
        if message.value == b"0":
            raise ZeroDivisionError

    for number in range(3):
        reporting.producer.produce("t", b"%d" % number, callback=tell)
        reporting.inner.deliver()
    with pytest.raises(ZeroDivisionError):
        reporting.producer.poll(0)
    assert len(reporting.producer) == 2
    reporting.producer.poll(5)
    assert told == [b"0", b"1", b"2"]


def test_callbacks_without_a_timeout_come_in_step_with_the_books(reporting: Rig) -> None:
    """Each call of ``poll(0)`` that had a report brought the books up to date: 0.6 µs a record."""
    told: list[bytes] = []
    begin = time.monotonic()
    for number in range(50):
        reporting.producer.produce(
            "t", b"%d" % number, callback=lambda _, message: told.append(message.value)
        )
        reporting.inner.deliver()
        reporting.producer.poll(0)
        assert len(reporting.producer) == number + 1 - len(told)
    if time.monotonic() - begin < CALLBACK_SECONDS:
        assert told == [b"0"]
    reporting.producer.poll(0.001)
    assert told == [b"%d" % number for number in range(50)]


def test_with_only_errors_the_application_hears_of_errors_only(tmp_path: Path) -> None:
    rig = Rig(tmp_path, MemoryProducer(only_errors=True))
    told: list[tuple[bytes, Any]] = []
    for number in range(300):
        rig.producer.produce(
            "t", b"%d" % number, partition=0, callback=lambda e, m: told.append((m.value, e))
        )
    rig.inner.deliver(250, LOST)
    rig.inner.deliver(3, REFUSED)
    rig.producer.flush()
    rig.run.tick()
    assert told == [(b"250", LOST), (b"3", REFUSED)]
    claims = rig.claims()[0]
    assert (claims["in_doubt"], claims["failed"]) == ({250}, {3})
    assert claims["acknowledged"] == set(range(300)) - {250, 3}
    rig.run.close()


def test_with_only_errors_a_record_that_is_under_way_is_not_claimed(tmp_path: Path) -> None:
    """A record's delivery is seen by its report, which the producer drops: what it keeps, in the
    middle of a page too, is under way."""
    rig = Rig(tmp_path, MemoryProducer(only_errors=True))
    for _ in range(1000):
        rig.producer.produce("t", b"v", partition=0)
    under_way = {0, 5, 127, 128, 600, 999}
    for number in sorted(set(range(1000)) - under_way, reverse=True):
        rig.inner.deliver(number)
    rig.producer.poll(0)
    rig.run.settle()
    rig.run.tick()
    assert rig.claims()[0]["acknowledged"] == set(range(1000)) - under_way
    assert rig.events[-1].complete_through <= rig.inner.open[0].timestamp
    rig.producer.flush()
    rig.run.tick()
    assert rig.claims()[0]["acknowledged"] == set(range(1000))
    rig.run.close()


def test_reports_of_ended_records_serve_later_ones(rig: Rig) -> None:
    """A report was made for each record: 0.3 µs, and work for the garbage collector."""
    made: set[int] = set()
    for _ in range(40):
        for _ in range(100):
            rig.producer.produce("t", b"v", partition=0)
            made.add(id(rig.inner.callbacks[-1]))
        rig.producer.flush()
    assert len(made) <= 3 * PAGE
    rig.run.tick()
    assert rig.claims()[0]["acknowledged"] == set(range(4000))


def test_a_report_that_somebody_keeps_serves_no_other_record(rig: Rig) -> None:
    rig.producer.produce("t", b"v", partition=0)
    kept = rig.inner.callbacks[0]
    for _ in range(3 * PAGE):
        rig.producer.produce("t", b"v", partition=0)
        assert kept is not rig.inner.callbacks[-1]
        rig.producer.flush()
    rig.run.tick()
    acknowledged = rig.claims()[0]["acknowledged"]
    assert acknowledged | {0} == set(range(3 * PAGE + 1))
    assert (0 in acknowledged) is not rig.inner.only_errors, "it may still be under way"


def test_a_list_of_records_is_audited(rig: Rig) -> None:
    """``produce_batch`` went to the producer itself: its records had no stamp, and the audit showed
    them as unclaimed."""
    told: list[bytes] = []
    messages: list[dict[str, Any]] = [{"value": b"%d" % number} for number in range(10)]
    messages[3] |= {"partition": 1, "key": b"k", "callback": lambda e, m: told.append(m.value)}
    rig.inner.room = 8
    count = rig.producer.produce_batch("t", messages, partition=0)
    assert count == 8
    assert [message["_error"].code() for message in messages[8:]] == [KafkaError._QUEUE_FULL] * 2
    assert all("_error" not in message for message in messages[:8])
    rig.producer.flush()
    rig.run.tick()
    assert rig.claims()[0]["acknowledged"] == set(range(7))
    assert rig.claims()[1]["acknowledged"] == {0}
    assert told == ([] if rig.inner.only_errors else [b"3"])
    with pytest.raises(TypeError, match="index 0 must be a dict"):
        rig.producer.produce_batch("t", [b"v"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must be a list"):
        rig.producer.produce_batch("t", ())  # type: ignore[arg-type]


def test_headers_of_every_shape_and_a_stamp_of_somebody_else(rig: Rig) -> None:
    rig.producer.produce("t", b"v", headers={"a": b"1"})
    rig.producer.produce("t", b"v", headers=[("tm", b"of the record that is passed on")])
    rig.producer.produce("t", b"v", headers=())
    assert [stamp.server for stamp in rig.stamps()] == ["web"] * 3
    assert [record.headers[0][0] for record in rig.inner.handed] == ["a", "tm", "tm"]


def test_internal_topics_and_unknown_partitions_go_as_they_are(rig: Rig) -> None:
    rig.producer.produce("__x", b"v")
    rig.producer.produce("t", b"v", partition=9)
    assert not any(record.headers for record in rig.inner.handed)


def test_committed_and_aborted_transactions(rig: Rig) -> None:
    producer = rig.producer
    producer.begin_transaction()
    producer.produce("t", b"v", partition=0)
    rig.inner.deliver()
    producer.poll(0)
    rig.run.tick()
    assert "acknowledged" not in rig.claims()[0], "before the commit nothing holds"
    producer.commit_transaction()
    producer.begin_transaction()
    for _ in range(2):
        producer.produce("t", b"v", partition=0)
    rig.inner.deliver()  # one is in the log, one is not
    producer.poll(0)
    producer.abort_transaction()
    rig.run.tick()
    claims = rig.claims()[0]
    assert claims["acknowledged"] == {0}
    assert claims["aborted"] | claims["failed"] == {1, 2}
    assert 1 in claims["aborted"]


def test_from_many_threads(rig: Rig) -> None:
    def work() -> None:
        for _ in range(300):
            rig.producer.produce("t", b"v")
            rig.producer.poll(0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rig.producer.flush()
    rig.run.tick()
    by_partition: dict[int, list[int]] = defaultdict(list)
    for stamp, record in zip(rig.stamps(), rig.inner.handed, strict=True):
        assert stamp.partition == record.partition
        by_partition[stamp.partition].append(stamp.sequence)
    for partition, numbers in by_partition.items():
        assert numbers == list(range(len(numbers))), "in the order they were handed over"
        assert rig.claims()[partition]["acknowledged"] == set(numbers)


def test_complete_through_waits_for_what_is_pending(rig: Rig) -> None:
    rig.producer.produce("t", b"v", timestamp=5000)
    rig.run.tick()
    assert rig.events[-1].complete_through == 5000
    rig.producer.flush()
    rig.run.tick()
    assert rig.events[-1].complete_through > 5000


@pytest.mark.slow
def test_a_producer_that_is_dropped_sends_its_last_report(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.producer.produce("t", b"v")
    events = rig.events
    del rig.producer
    gc.collect()
    assert events[-1].closed
    (claim,) = fold(events).claims().values()
    assert str(claim.acknowledged) == "0"


def test_a_dropped_producer_is_not_held_by_the_callbacks_it_waits_for(tmp_path: Path) -> None:
    """librdkafka keeps the delivery callback of a record until the record is delivered. Where that
    callback held the wrapper, an application that dropped its producer with records under way kept
    it alive for ever: nobody flushed it, and its last claims never came."""
    rig = Rig(tmp_path)
    rig.producer.produce("t", b"v", on_delivery=lambda error, message: None)
    events = rig.events
    gc.disable()
    try:
        del rig.producer
        assert [event.closed for event in events[-1:]] == [True], "no garbage collector was needed"
    finally:
        gc.enable()


def test_after_close_records_go_as_they_are(rig: Rig) -> None:
    rig.producer.produce("t", b"v")
    rig.producer.close()
    assert rig.events[-1].closed
    rig.producer.produce("t", b"v")
    assert not rig.inner.handed[-1].headers


@pytest.mark.parametrize("code", [KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION])
def test_a_record_whose_topic_went_away_may_have_arrived(rig: Rig, code: int) -> None:
    """It was sent, the answer was lost, the topic was deleted before librdkafka sent it again: told
    as *failed*, while the log had it. The table was read as what the code says, not as when it is
    said, and no test asked."""
    rig.producer.produce("t", b"v", partition=0)
    rig.inner.deliver(error=KafkaError(code))
    rig.producer.poll(0)
    rig.run.tick()
    assert rig.claims()[0]["in_doubt"] == {0}
    assert not rig.claims()[0]["failed"]


STEPS = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 1), st.integers(0, 5 * W)),
    st.tuples(st.just("full"), st.integers(0, 1), st.integers(0, 5 * W)),
    st.tuples(st.just("deliver"), st.integers(0, 9), st.sampled_from([None, LOST, REFUSED])),
    st.tuples(st.sampled_from(["poll", "tick"]), st.just(0), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=60), st.booleans(), st.booleans())
def test_any_schedule_is_told_as_it_was(steps: list[Any], finish: bool, only_errors: bool) -> None:
    rig = Rig(inner=MemoryProducer(only_errors=only_errors))
    inner, ends = rig.inner, dict[int, str]()
    names = {None: "acknowledged", LOST: "in_doubt", REFUSED: "failed"}
    try:
        for what, one, other in steps:
            if what == "produce":
                tell = (lambda *_: None) if other % 2 else None
                rig.producer.produce(
                    "t", b"v", partition=one, timestamp=other + 1, on_delivery=tell
                )
            elif what == "full":
                inner.room = 0
                with pytest.raises(BufferError):
                    rig.producer.produce("t", b"v", partition=one, timestamp=other + 1)
                inner.room = 1 << 30
            elif what == "deliver" and inner.open:
                at = one % len(inner.open)
                ends[inner.handed.index(inner.open[at])] = names[other]
                inner.deliver(at, other)
            elif what == "poll":
                rig.producer.poll(0)
            elif what == "tick":
                rig.run.tick()
        rig.producer.poll(0)
        if finish:
            ends |= {inner.handed.index(record): "acknowledged" for record in inner.open}
            rig.producer.flush()
    finally:
        rig.run.close()
    expected: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    windows: dict[tuple[int, int], int] = {}
    for at, (stamp, record) in enumerate(zip(rig.stamps(), inner.handed, strict=True)):
        expected[stamp.partition]["accepted"].add(stamp.sequence)
        expected[stamp.partition][ends.get(at, "in_doubt")].add(stamp.sequence)
        windows[stamp.partition, stamp.sequence] = record.timestamp - record.timestamp % W
    assert rig.claims() == expected
    assert rig.windows() == windows
