"""Logs that change between the plan and the read: cut, made anew, expired. Over real sockets."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tallymark.client import SimpleConsumer
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker
from tallymark_spark_jobs.source.damage import Expired
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import read_span


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as running:
        fill(running, 10)
        yield running


@pytest.fixture
def consumer(broker: ScriptedBroker) -> Iterator[SimpleConsumer]:
    with SimpleConsumer(bootstrap_servers=broker.address, request_timeout_ms=2000) as client:
        yield client


def fill(broker: ScriptedBroker, count: int) -> None:
    """Batches of two records."""
    for _ in range(count // 2):
        (batch,) = split_batches(encode_batch([(None, b"v", (), 1), (None, b"v", (), 2)]))
        broker.log("t").append(batch)


def planned(broker: ScriptedBroker, end: int = 10) -> Span:
    epoch = broker.log("t").epochs[-1][0]
    return Span("t", 0, 0, end, str(broker.topic_ids["t"]), epoch)


def offsets(consumer: SimpleConsumer, span: Span, expires: bool = False) -> list[int | Expired]:
    found: list[int | Expired] = []
    for some in read_span(consumer, span, expires=expires):
        if isinstance(some, list):
            found += [offset for piece in some for offset in piece.columns.offsets]
        elif isinstance(some, Expired):
            found.append(some)
    return found


def test_a_log_that_grew_meanwhile_is_read_to_the_planned_end(
    broker: ScriptedBroker, consumer: SimpleConsumer
) -> None:
    span = planned(broker)
    fill(broker, 4)
    assert offsets(consumer, span) == list(range(10))


def test_a_new_leader_that_lost_nothing_is_read(
    broker: ScriptedBroker, consumer: SimpleConsumer
) -> None:
    span = planned(broker)
    broker.log("t").cut(10)
    fill(broker, 4)
    assert offsets(consumer, span) == list(range(10))


def test_a_log_that_was_cut_and_has_grown_again_is_not_read(
    broker: ScriptedBroker, consumer: SimpleConsumer
) -> None:
    """Four records of the ten that were planned were lost, and others took their offsets before the
    task began: it read these without a word."""
    span = planned(broker)
    broker.log("t").cut(6)
    fill(broker, 10)
    with pytest.raises(UserError, match=r"t-0 ends at 6, but at 10 when the read was planned"):
        offsets(consumer, span)
    assert offsets(consumer, planned(broker, 6)) == list(range(6))


def test_a_log_that_is_cut_while_it_is_read_ends_the_read(
    broker: ScriptedBroker, consumer: SimpleConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last fetch had come before the cut: nothing but a second look can show it."""
    span = planned(broker)
    reads = read_span(consumer, span)
    assert isinstance(next(reads), list)
    broker.log("t").cut(6)
    fill(broker, 10)
    with pytest.raises(UserError, match="the log was cut meanwhile"):
        next(reads)


def test_a_topic_that_was_made_anew_is_not_read(
    broker: ScriptedBroker, consumer: SimpleConsumer
) -> None:
    span = planned(broker)
    broker.topic_ids["t"] = uuid.uuid4()
    with pytest.raises(UserError, match=r"t-0: the topic was deleted or made anew .* 0 to 10 were"):
        offsets(consumer, span)


def test_a_topic_that_is_gone_is_named(broker: ScriptedBroker, consumer: SimpleConsumer) -> None:
    span = planned(broker)
    broker.script(ApiKey.METADATA, *[Refuse(CODES["UNKNOWN_TOPIC_OR_PARTITION"])] * 9)
    with pytest.raises((UserError, KafkaError), match="t"):
        offsets(consumer, span)


def test_brokers_without_ids_and_epochs_are_believed() -> None:
    served = {key: range_ for key, range_ in ADVERTISED.items() if key != 23}
    with ScriptedBroker({"t": 1}, served=served) as broker:
        fill(broker, 10)
        with SimpleConsumer(bootstrap_servers=broker.address) as consumer:
            assert consumer.epoch_end("t", 0, 0) is None
            assert offsets(consumer, Span("t", 0, 0, 10, "", 0)) == list(range(10))
            assert offsets(consumer, Span("t", 0, 0, 10)) == list(range(10))


def test_the_end_of_an_epoch(broker: ScriptedBroker, consumer: SimpleConsumer) -> None:
    assert consumer.epoch_end("t", 0, 0) == 10
    broker.log("t").cut(6)
    fill(broker, 10)
    assert consumer.epoch_end("t", 0, 0) == 6
    assert consumer.epoch_end("t", 0, 1) == 16
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.epoch_end("t", 9, 0)


def expire(broker: ScriptedBroker, offset: int) -> None:
    log = broker.log("t")
    log.batches = [one for one in log.batches if one.header.next_offset > offset]
    log.start = offset


@pytest.mark.parametrize(("begins", "expected"), [(4, [0, 4]), (10, [0, 10]), (14, [0, 10])])
def test_what_expires_before_it_is_read_is_reported_and_passed(
    broker: ScriptedBroker, consumer: SimpleConsumer, begins: int, expected: list[int]
) -> None:
    """``failOnDataLoss=false`` failed when the beginning of a log expired while it was read, and so
    did a whole nightly run, with nothing recorded."""
    span = planned(broker)
    fill(broker, 10)
    expire(broker, begins)
    with pytest.raises(UserError, match=r"t-0: offset 0 was deleted .* failOnDataLoss=false"):
        offsets(consumer, span)
    first, behind = expected
    assert offsets(consumer, span, expires=True) == [
        Expired(first, behind),
        *range(behind, 10),
    ]


def test_a_log_that_has_no_such_offset_any_more_has_not_expired(
    broker: ScriptedBroker, consumer: SimpleConsumer
) -> None:
    """A log without epochs that was made anew with fewer records: that is no retention."""
    broker.log("t").cut(4)
    with pytest.raises(UserError, match="deleted or cut off"):
        offsets(consumer, Span("t", 0, 6, 10), expires=True)
