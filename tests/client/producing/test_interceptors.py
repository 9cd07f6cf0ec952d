"""What a producer tells its interceptors, in which order, and what they cannot break."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from eventually import eventually

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors import chain as interceptor_chain
from tallymark.client.producing.interceptors.chain import load_interceptors
from tallymark.client.producing.interceptors.producer_interceptor import (
    ProducerContext,
    ProducerInterceptor,
)
from tallymark.client.producing.interceptors.queue_interceptor import (
    OutgoingRecord,
    QueueInterceptor,
)
from tallymark.client.producing.producer import Producer
from tallymark.errors import CODES, KafkaError, TimedOutError, UserError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker


class Recorder:
    """Writes down every call."""

    def __init__(self, broker: ScriptedBroker | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.ticks: list[tuple[int, int | None]] = []
        self.context: ProducerContext | None = None
        self.produced_at_send: list[int] = []
        self.at_close: Callable[[ProducerContext], None] = lambda context: None
        self._broker = broker

    def attach(self, context: ProducerContext) -> None:
        self.context = context
        self.calls.append(("attach",))

    def on_send(self, batch: BatchTally) -> None:
        self.calls.append(("send", batch))
        if self._broker:
            self.produced_at_send.append(self._broker.count(ApiKey.PRODUCE))

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self.calls.append(("acknowledged", batch, base_offset))

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        self.calls.append(("failed", batch, error, in_doubt))

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self.ticks.append((now_ms, oldest_pending_ms))

    def on_flush(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self.calls.append(("flush", oldest_pending_ms))

    def on_close(self, now_ms: int) -> None:
        self.calls.append(("close",))
        assert self.context is not None
        self.at_close(self.context)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def tallies(self, name: str) -> list[BatchTally]:
        return [call[1] for call in self.calls if call[0] == name]


def ranges(tallies: Sequence[BatchTally]) -> list[tuple[int, int]]:
    return [(tally.first_sequence, tally.last_sequence) for tally in tallies]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


def producer(broker: ScriptedBroker, *interceptors: ProducerInterceptor, **more: Any) -> Producer:
    """One that stamps, and that only these listen to."""
    settings: dict[str, Any] = {"linger_ms": 1, "retry_backoff_ms": 20, "server": "srv"}
    settings |= {"audit": False, "stamp": True}
    return Producer(
        bootstrap_servers=broker.address, interceptors=interceptors, **(settings | more)
    )


def test_a_recorder_is_an_interceptor() -> None:
    assert isinstance(Recorder(), ProducerInterceptor)


def test_a_healthy_life(broker: ScriptedBroker) -> None:
    recorder = Recorder(broker)
    with producer(broker, recorder, linger_ms=60_000) as p:
        p.send("t", b"12345", key=b"k", timestamp=1000)
        p.send("t", b"", timestamp=900)
        p.flush(5)
        p.send("t", b"x")
    assert recorder.names() == [
        "attach",
        "send",
        "acknowledged",
        "flush",
        "send",
        "acknowledged",
        "close",
    ]
    first, second = recorder.tallies("send")
    assert (first.topic, first.partition, first.server) == ("t", 0, "srv")
    assert first.instance == p.instance
    assert list(first.timestamps) == [1000, 900]
    assert first.sizes == 6
    assert first.backfill is False
    assert (first.count, ranges([first, second])) == (2, [(0, 1), (2, 2)])
    assert recorder.tallies("acknowledged") == [first, second]
    assert [call[2] for call in recorder.calls if call[0] == "acknowledged"] == [0, 2]
    assert recorder.context is not None
    assert recorder.context.instance == p.instance
    assert recorder.context.acks == -1
    assert recorder.context.cluster_id == "scripted"


def test_accepted_is_told_before_a_byte_leaves(broker: ScriptedBroker) -> None:
    recorder = Recorder(broker)
    with producer(broker, recorder, batch_size=1) as p:
        for number in range(5):
            p.send("t", b"%d" % number).result(30)
    assert recorder.produced_at_send == list(range(5))


def test_a_batch_shows_what_it_holds_as_long_as_it_is_told_of(broker: ScriptedBroker) -> None:
    """And no longer: an interceptor that keeps what it was told keeps the lists, nobody else."""
    seen: list[tuple[Any, Any, Any]] = []

    class Looking(Recorder):
        def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
            seen.append((list(batch.values or ()), batch.keys and list(batch.keys), batch.span))

    with producer(broker, Looking(), linger_ms=60_000) as p:
        p.send("t", b"one", timestamp=7)
        p.send("t", None, key=b"k", timestamp=5)
        p.flush(5)
        p.send_many("t", [b"a", b"bc"], timestamps=[9, 9])
    assert seen == [
        ([b"one", None], [None, b"k"], (5, 7)),
        ([b"a", b"bc"], None, (9, 9)),
    ]


def test_sizes_are_right_however_the_records_came(broker: ScriptedBroker) -> None:
    """One by one, many at once, and both in one batch; with keys and without values."""
    recorder = Recorder()
    with producer(broker, recorder, linger_ms=60_000) as p:
        p.send_many("t", [b"1", b"22", None], keys=[b"k", None, None])
        p.flush(5)
        p.send("t", b"333")
        p.send_many("t", [b"1", b"22"])
        p.flush(5)
        p.send_many("t", [b"1", b"22"])
        p.send("t", b"4444", key=b"k")
        p.send("t", None)
    assert [tally.sizes for tally in recorder.tallies("send")] == [4, 6, 8]


def test_flush_tells_when_all_is_settled(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with producer(broker, recorder, linger_ms=60_000) as p:
        p.send("t", b"x", timestamp=5)
        p.flush(5)
        assert recorder.calls[-1] == ("flush", None)
        broker.script(ApiKey.PRODUCE, *[Refuse(5)] * 1000)
        p.send("t", b"y", timestamp=6)
        with pytest.raises(TimedOutError):
            p.flush(0.1)
        assert recorder.names().count("flush") == 1
        with pytest.raises(TimedOutError):
            p.close(timeout=0)


def test_a_retry_is_no_second_acceptance(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    broker.script(ApiKey.PRODUCE, HangUp(after_append=True), Refuse(6))
    with producer(broker, recorder) as p:
        p.send("t", b"x").result(30)
    assert recorder.names() == ["attach", "send", "acknowledged", "close"]


def test_refused_for_good_is_failed_and_unanswered_is_in_doubt(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with producer(broker, recorder, delivery_timeout_ms=1_200, batch_size=1) as p:
        broker.script(ApiKey.PRODUCE, Refuse(CODES["INVALID_RECORD"]), Late(4))
        with pytest.raises(KafkaError):
            p.send("t", b"refused").result(30)
        with pytest.raises(TimedOutError):
            p.send("t", b"unanswered").result(30)
        broker.stop()
        with pytest.raises(TimedOutError):
            p.send("t", b"never left").result(30)
        broker.start()
    failed = [(call[1].first_sequence, call[3]) for call in recorder.calls if call[0] == "failed"]
    assert failed == [(0, False), (1, True), (2, False)]
    assert ranges(recorder.tallies("send")) == [(0, 0), (1, 1), (2, 2)]


def test_internal_and_unstamped_records_are_not_tallied(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with producer(broker, recorder) as p:
        p.send("_internal", b"x").result(30)
    with producer(broker, recorder, stamp=False) as p:
        p.send("t", b"x").result(30)
    assert recorder.names() == ["attach", "close"] * 2


def test_without_acks_sent_is_all_that_is_known(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with producer(broker, recorder, acks=0) as p:
        p.send("t", b"x").result(30)
    assert [call[2] for call in recorder.calls if call[0] == "acknowledged"] == [-1]
    assert recorder.context is not None
    assert recorder.context.acks == 0


def test_ticks_come_also_when_idle_and_know_the_oldest_pending_record(
    broker: ScriptedBroker,
) -> None:
    recorder = Recorder()
    with producer(broker, recorder, linger_ms=60_000) as p:
        began = time.monotonic()
        eventually(lambda: len(recorder.ticks) >= 2, what="an idle producer ticks")
        assert len(recorder.ticks) <= 1 + 8 * (time.monotonic() - began) + 1
        assert {oldest for _, oldest in recorder.ticks} == {None}
        p.send("_internal", b"x", timestamp=1)
        p.send("t", b"x", timestamp=5000)
        p.send("t", b"x", timestamp=4000)
        recorder.ticks.clear()
        eventually(lambda: recorder.ticks and recorder.ticks[-1][1] == 4000)  # nothing is sealed
        p.flush(5)
        recorder.ticks.clear()
        eventually(lambda: recorder.ticks and recorder.ticks[-1][1] is None)
    now = time.time_ns() // 1_000_000
    assert all(0 <= now - tick < 5000 for tick, _ in recorder.ticks)


def test_what_is_published_on_close_still_leaves(broker: ScriptedBroker) -> None:
    published: list[Future[RecordMetadata]] = []
    recorder = Recorder()
    recorder.at_close = lambda context: published.append(
        context.publish("_reports", b"key", b"the last report", 77)
    )
    with producer(broker, recorder, linger_ms=60_000) as p:
        p.send("t", b"x")
    assert published[0].result(0) == RecordMetadata("_reports", 0, 0, 77)
    (record,) = broker.log("_reports").records()
    assert (record.key, record.value, record.headers) == (b"key", b"the last report", ())


def test_nobody_flushes_or_closes_for_reports(broker: ScriptedBroker) -> None:
    """The audit topic cannot be written: that is the audit's trouble, not the application's."""
    recorder = Recorder()
    with producer(broker, recorder) as p:
        assert recorder.context is not None
        recorder.context.publish("_reports", None, b"1", None).result(30)
        broker.script(ApiKey.PRODUCE, *[Refuse(5)] * 1000)
        stuck = recorder.context.publish("_reports", None, b"2", None)
        time.sleep(0.05)
        p.flush(1)
        p.close(timeout=0)
    assert isinstance(stuck.exception(0), TimedOutError)


def test_published_records_are_neither_stamped_nor_tallied_even_on_plain_topics(
    broker: ScriptedBroker,
) -> None:
    recorder = Recorder()
    with producer(broker, recorder, linger_ms=50) as p:
        assert recorder.context is not None
        p.send("t", b"stamped")
        recorder.context.publish("t", None, b"plain", None).result(30)
        p.send("t", b"stamped").result(30)
    assert [bool(record.headers) for record in broker.log("t").records()] == [True, False, True]
    assert ranges(recorder.tallies("send")) == [(0, 0), (1, 1)]


def test_an_interceptor_can_make_its_topic(broker: ScriptedBroker) -> None:
    recorder = Recorder()
    with producer(broker, recorder):
        assert recorder.context is not None
        assert recorder.context.create_topic("_reports", 3, {"retention.ms": "1"}).result(30)
        assert not recorder.context.create_topic("_reports", 3, {}).result(30)
    assert ("_reports", 2) in broker.logs


def test_what_an_interceptor_raises_is_logged_once_and_counted(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Recorder):
        def on_send(self, batch: BatchTally) -> None:
            raise ValueError("a bug in an interceptor")

    healthy = Recorder()
    with producer(broker, Broken(), healthy, batch_size=1) as p:
        for number in range(5):
            p.send("t", b"%d" % number).result(30)
        assert p.interceptor_errors == 5
    assert len(broker.values("t")) == 5
    assert len(healthy.tallies("acknowledged")) == 5
    assert caplog.text.count("Broken.on_send failed") == 1
    assert "a bug in an interceptor" in caplog.text


class _Entry:
    def __init__(self, name: str, factory: Callable[[], Any] | Exception) -> None:
        self.name = self.value = name
        self._factory = factory

    def load(self) -> Callable[[], Any]:
        if isinstance(self._factory, Exception):
            raise self._factory
        return self._factory


def test_one_that_does_not_load_is_left_out_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [_Entry("bad", ImportError("no module")), _Entry("good", Recorder)]
    monkeypatch.setattr(interceptor_chain, "entry_points", lambda group: entries)
    monkeypatch.setattr(interceptor_chain, "_reported", set())
    for _ in range(3):
        (loaded,) = load_interceptors()
        assert isinstance(loaded, Recorder)
    assert caplog.text.count("no module") == 1


class _AlmostOne:
    def attach(self, context: ProducerContext) -> None: ...

    def on_send(self, batch: BatchTally) -> None: ...


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([Recorder(), _AlmostOne()], r"_AlmostOne object.*methods on_acknowledged, on_failed, on_"),
        ([Recorder], r"Recorder.*give an object: Recorder\(\)"),
        (["audit"], r"'audit' in interceptors is none"),
        (_AlmostOne(), r"interceptors=<.*_AlmostOne object.*it must be a list"),
    ],
)
def test_what_is_no_interceptor_is_refused(given: Any, text: str) -> None:
    """An interceptor with a method misspelt was ignored without a word: the producer took it, and
    never called it."""
    with pytest.raises(UserError, match=text):
        Producer(bootstrap_servers="h:1", interceptors=given)


def test_one_installed_that_is_none_is_left_out_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(interceptor_chain, "entry_points", lambda group: [_Entry("x", _AlmostOne)])
    monkeypatch.setattr(interceptor_chain, "_reported", set())
    assert load_interceptors() == []
    assert "_AlmostOne object" in caplog.text


class _Shy(QueueInterceptor):
    """Drops what is marked as a test: the recipe of the documentation."""

    def before_enqueue(self, record: OutgoingRecord) -> OutgoingRecord | None:
        return None if record.key == b"test" else record


class _Installed(Recorder):
    """What the entry point gives in these tests; the last one made."""

    made: _Installed | None = None

    def __init__(self, broker: ScriptedBroker | None = None) -> None:
        super().__init__(broker)
        type(self).made = self


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> type[_Installed]:
    """A producer finds one installed interceptor."""
    monkeypatch.setattr(
        interceptor_chain, "entry_points", lambda group: [_Entry("audit", _Installed)]
    )
    monkeypatch.setattr(_Installed, "made", None)
    return _Installed


def _send_one(broker: ScriptedBroker, **settings: Any) -> list[tuple[str, bytes | None]]:
    """Sends "x" and returns its headers."""
    with Producer(bootstrap_servers=broker.address, linger_ms=1, **settings) as p:
        p.send("t", b"x").result(30)
    (record,) = broker.log("t").records()
    return list(record.headers)


@pytest.mark.parametrize("named", [[_Shy()], [], None])
def test_naming_interceptors_keeps_the_audit(
    broker: ScriptedBroker, installed: type[_Installed], named: list[Any] | None
) -> None:
    """A user copied the recipe that drops test messages, ``interceptors=[NoTests()]``. The audit
    was gone without a word, the messages were stamped all the same: UNCLAIMED for ever."""
    assert [name for name, _ in _send_one(broker, interceptors=named)] == ["tm"]
    assert installed.made is not None
    assert installed.made.names() == ["attach", "send", "acknowledged", "close"]


def test_leaving_the_audit_out_leaves_the_stamps_out(
    broker: ScriptedBroker, installed: type[_Installed]
) -> None:
    """A user did not want the audit, and said so. A stamp that nobody claims would make each
    message a finding."""
    own = Recorder()
    assert _send_one(broker, audit=False, interceptors=[own]) == []
    assert installed.made is None
    assert own.names() == ["attach", "close"]


def test_one_of_the_installed_kind_stands_in_its_place(
    broker: ScriptedBroker, installed: type[_Installed]
) -> None:
    """A user gave an audit with settings of its own, or what ``load_interceptors()`` returned as
    the documentation said before: two would claim every message twice."""
    own = _Installed()
    assert [name for name, _ in _send_one(broker, interceptors=[_Shy(), own])] == ["tm"]
    assert own.names() == ["attach", "send", "acknowledged", "close"]
    assert installed.made is not None
    assert installed.made.names() == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_another_instance(broker: ScriptedBroker) -> None:
    """The child shares the parent's memory, not its threads: it must not send the parent's
    records, and its own must not pass for the parent's."""
    recorder = Recorder()
    with producer(broker, recorder, linger_ms=100) as p:
        p.send("t", b"before").result(30)
        p.send("t", b"the parent's, still in the buffer")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                p.send("t", b"the child's").result(30)
                os.write(write_end, p.instance)
                p.close()
            finally:
                os._exit(0)
        os.close(write_end)
        os.waitpid(child, 0)
        instance = os.read(read_end, 100)
        os.close(read_end)
        assert len(instance) == 8
        assert instance != p.instance
    values = broker.values("t")
    assert sorted(value or b"" for value in values) == [
        b"before",
        b"the child's",
        b"the parent's, still in the buffer",
    ]
