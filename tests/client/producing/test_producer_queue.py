"""The producer's queue: its stages and events, what is too large, a buffer that is full."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from scripted_producer import quick_producer

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.delivery import Delivery
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.queue_interceptor import (
    EventKind,
    OutgoingRecord,
    QueuedBatch,
    QueueEvent,
    QueueInterceptor,
)
from tallymark.client.producing.producer import Producer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CODES, BufferFullError, KafkaError, RecordDroppedError, UserError
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Late, Refuse, ScriptedBroker, Serve

TOO_LARGE = Refuse(CODES["MESSAGE_TOO_LARGE"])


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        yield running


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- stages -------------------------------------------------------------------------------------


class Watcher(QueueInterceptor):
    """Writes down every stage."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_enqueue(self, record: OutgoingRecord) -> OutgoingRecord | None:
        self.seen.append(f"before {record.value.decode()}")
        if record.value == b"drop me":
            return None
        return replace(record, headers=(*record.headers, ("seen", b"1")))

    def after_enqueue(self, record: OutgoingRecord, delivery: Delivery) -> None:
        self.seen.append(f"after {record.value.decode()}")

    def after_dequeue(self, batch: QueuedBatch) -> None:
        self.seen.append(f"dequeued {batch.count}")

    def before_sending(self, batch: QueuedBatch) -> None:
        self.seen.append(f"sending {batch.attempts}")

    def after_sending(self, batch: QueuedBatch) -> None:
        self.seen.append(f"sent {batch.attempts}")

    def retried(self, batch: QueuedBatch, error: Exception) -> None:
        self.seen.append("retried")

    def acknowledged(self, batch: QueuedBatch, base_offset: int) -> None:
        self.seen.append(f"acknowledged at {base_offset}")

    def failed(self, batch: QueuedBatch, error: Exception, in_doubt: bool) -> None:
        self.seen.append(f"failed {in_doubt}")

    def last_batch_before_close(self) -> list[OutgoingRecord]:
        return [OutgoingRecord("t", b"the last one")]


def test_every_stage_is_passed_in_order(broker: ScriptedBroker) -> None:
    watcher = Watcher()
    with quick_producer(broker, interceptors=[watcher], batch_size=1) as p:
        broker.script(ApiKey.PRODUCE, Refuse(6), Serve(), Refuse(CODES["INVALID_RECORD"]))
        p.send("t", b"a").result(30)
        with pytest.raises(RecordDroppedError):
            p.send("t", b"drop me").result(0)
        with pytest.raises(KafkaError):
            p.send("t", b"b").result(30)
    assert [record.value for record in broker.log("t").records()] == [b"a", b"the last one"]
    assert broker.log("t").records()[0].headers[0] == ("seen", b"1")
    # What the thread that sends and the I/O thread do is not ordered between them.
    own = ("before", "after")
    assert [one for one in watcher.seen if one.startswith(own)] == [
        *("before a", "after a", "before drop me", "before b", "after b"),
        *("before the last one", "after the last one"),
    ]
    assert [one for one in watcher.seen if not one.startswith(own)] == [
        *("dequeued 1", "sending 0", "sent 1", "retried", "sending 1", "sent 2"),
        *("acknowledged at 0", "dequeued 1", "sending 0", "sent 1", "failed False"),
        *("dequeued 1", "sending 0", "sent 1", "acknowledged at 1"),
    ]


def test_an_event_handler_hears_of_everything(broker: ScriptedBroker) -> None:
    events: list[QueueEvent] = []
    with quick_producer(broker, event_handler=events.append, linger_ms=60_000) as p:
        broker.script(ApiKey.PRODUCE, HangUp())
        for value in numbers(3):
            p.send("t", value)
        p.flush(5)
    kinds = [(event.kind, event.count) for event in events]
    assert kinds == [
        *[(EventKind.ENQUEUED, 1)] * 3,
        (EventKind.SEALED, 3),
        (EventKind.SENT, 3),
        (EventKind.RETRIED, 3),
        (EventKind.SENT, 3),
        (EventKind.ACKNOWLEDGED, 3),
    ]
    assert {(event.topic, event.partition) for event in events} == {("t", 0)}


def test_what_a_stage_raises_is_counted_and_changes_nothing(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(QueueInterceptor):
        def acknowledged(self, batch: QueuedBatch, base_offset: int) -> None:
            raise ValueError("a bug of the user")

    with quick_producer(broker, interceptors=[Broken()], batch_size=1) as p:
        for value in numbers(3):
            p.send("t", value).result(30)
        assert p.interceptor_errors == 3
        assert p.metrics()["interceptor_errors"] == 3
    assert caplog.text.count("acknowledged failed; further") == 1
    assert broker.values("t") == numbers(3)


def test_a_gate_that_raises_keeps_the_record_out(broker: ScriptedBroker) -> None:
    class Gate(QueueInterceptor):
        def before_enqueue(self, record: OutgoingRecord) -> OutgoingRecord | None:
            raise PermissionError("not today")

    with quick_producer(broker, interceptors=[Gate()]) as p, pytest.raises(PermissionError):
        p.send("t", b"x")
    assert broker.values("t") == []


# --- too large ----------------------------------------------------------------------------------


class Tallies:
    """What the audit hears."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def attach(self, context: ProducerContext) -> None: ...

    def on_send(self, batch: BatchTally) -> None:
        self._note("send", batch)

    def on_split(self, batch: BatchTally, parts: list[BatchTally]) -> None:
        self._note("split", batch)
        assert sum(part.sizes for part in parts) == batch.sizes

    def on_acknowledged(self, batch: BatchTally, base_offset: int) -> None:
        self._note("acknowledged", batch)

    def on_failed(self, batch: BatchTally, error: Exception, in_doubt: bool) -> None:
        self._note("failed", batch)

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None: ...

    def on_close(self, now_ms: int) -> None: ...

    def _note(self, name: str, batch: BatchTally) -> None:
        self.calls.append((name, batch.first_sequence, batch.last_sequence))


def test_a_batch_that_is_too_large_goes_in_halves(broker: ScriptedBroker) -> None:
    """The topic takes smaller messages than our batch_size: the records are not to blame."""
    tallies = Tallies()
    with quick_producer(broker, interceptors=[tallies], batch_num_messages=8) as p:
        p.send("t", b"first").result(30)
        broker.script(ApiKey.PRODUCE, TOO_LARGE, TOO_LARGE)
        deliveries = [p.send("t", value, key=b"k", headers=[("h", b"")]) for value in numbers(20)]
        p.flush(5)
        assert [delivery.result(0).offset for delivery in deliveries] == [*range(1, 21)]
        assert p.metrics()["batches_split"] == 2
        assert p._core.accumulator.buffer.used == 0
        assert not p._core.topics["t"].queues[0].grows  # or each larger one would be split again
    assert broker.values("t") == [b"first", *numbers(20)]
    stamps = [stamp_of(record.headers) for record in broker.log("t").records()]
    assert stamps == [Stamp(p.instance, 0, number, "srv") for number in range(21)]
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1
    splits = [call for call in tallies.calls if call[0] == "split"]
    assert len(splits) == 2
    assert splits[0] == ("split", 1, 8)
    settled = [call[1:] for call in tallies.calls if call[0] == "acknowledged"]
    assert sorted(s for first, last in settled for s in range(first, last + 1)) == [*range(21)]


def test_the_one_record_that_is_too_large_fails_alone(broker: ScriptedBroker) -> None:
    with quick_producer(broker, batch_num_messages=4) as p:
        p.send("t", b"first").result(30)
        # all four, the first two, the first; then the rest is served
        broker.script(ApiKey.PRODUCE, TOO_LARGE, TOO_LARGE, TOO_LARGE)
        called: list[Any] = []
        deliveries = [
            p.send("t", value, on_delivery=lambda *end: called.append(end)) for value in numbers(4)
        ]
        p.flush(5)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            deliveries[0].result(0)
        assert [delivery.result(0).offset for delivery in deliveries[1:]] == [1, 2, 3]
    assert [error is None for error, _ in called] == [False, True, True, True]
    assert broker.values("t") == [b"first", b"1", b"2", b"3"]


# --- full ---------------------------------------------------------------------------------------


def test_a_full_buffer_fails_at_once_or_drops_and_counts(broker: ScriptedBroker) -> None:
    small: dict[str, Any] = {"batch_size": 1000, "buffer_memory": 3000}
    with quick_producer(broker, on_buffer_full="fail", **small) as p:
        p.send("t", b"0").result(30)
        broker.script(ApiKey.PRODUCE, Late(0.3))

        def too_much() -> None:
            for _ in range(10):
                p.send("t", bytes(700))

        with pytest.raises(BufferFullError, match=r"of 3000 bytes \(buffer_memory\)"):
            too_much()
        p.flush(5)
        p.send("t", b"again").result(30)
        assert p.dropped == 0
    events: list[QueueEvent] = []
    with quick_producer(broker, on_buffer_full="drop", event_handler=events.append, **small) as p:
        p.send("t", b"0").result(30)
        broker.script(ApiKey.PRODUCE, Late(0.3))
        called: list[Any] = []
        deliveries = [
            p.send("t", bytes(700), on_delivery=lambda error, where: called.append(error))
            for _ in range(10)
        ]
        assert p.dropped == 7
        p.flush(5)
    ends = [delivery.exception(0) for delivery in deliveries]
    assert [isinstance(end, BufferFullError) for end in ends] == [False] * 3 + [True] * 7
    assert len(called) == 10
    assert sum(event.kind is EventKind.DROPPED for event in events) == 7


@pytest.mark.parametrize(
    "settings",
    [
        {"on_buffer_full": "explode"},
        {"batch_num_messages": 0},
        {"compression_level": 3},
        {"compression_type": "lz4", "compression_level": 3},
        {"compression_type": "gzip", "compression_level": 10},
    ],
)
def test_settings_that_cannot_be_are_user_errors(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Producer(bootstrap_servers="h:1", audit=False, **settings)


@pytest.mark.parametrize(
    ("name", "meant"), [("queue.time", "linger_ms"), ("value_serializer", "value_encoder")]
)
def test_names_of_other_clients_are_translated(name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"it is {meant} here"):
        Producer(**{"bootstrap_servers": "h:1", name: 5})  # type: ignore[arg-type] # that is the test


@pytest.mark.parametrize(("codec", "level"), [("gzip", 9), ("zstd", 19), ("zstd", -3)])
def test_compression_levels(broker: ScriptedBroker, codec: str, level: int) -> None:
    with quick_producer(broker, compression_type=codec, compression_level=level) as p:
        p.send_many("t", [b"again and again " * 20] * 20).result(30)
    assert broker.values("t") == [b"again and again " * 20] * 20
    assert {batch.header.codec for batch in broker.log("t").batches} == {codec}


def test_metrics_say_what_was_done(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), quick_producer(broker, batch_size=1) as p:
        broker.script(ApiKey.PRODUCE, Refuse(6))
        for value in numbers(5):
            p.send("t", value).result(30)
        found = p.metrics()
    expected = {
        "records_acknowledged": 5,
        "batches_acknowledged": 5,
        "batches_retried": 1,
        "requests": 6,
        "requests_in_flight": 0,
        "records_failed": 0,
        "buffer_used_bytes": 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["bytes_sent"] > 6 * 61
    assert 0 < found["request_latency_ms_mean"] <= found["request_latency_ms_max"]
