"""Planning at the brokers: ids and epochs are fixed there, and a time bounds what is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.errors import CODES, KafkaError, UserError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.scripted_broker import Refuse, ScriptedBroker
from tallymark_spark_jobs.source.log_reader import plan_spans
from tallymark_spark_jobs.source.options import parse_options
from tallymark_spark_jobs.source.planning import Span

HOUR = 3_600_000


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 3}) as running:
        yield running


def fill(broker: ScriptedBroker, times: list[int], partition: int = 0, size: int = 1) -> None:
    """One batch a time, of two records."""
    value = b"v" * size
    for at in times:
        (batch,) = split_batches(encode_batch([(None, value, (), at), (None, value, (), at)]))
        broker.log("t", partition).append(batch)


def planned(broker: ScriptedBroker, **given: str) -> list[Span]:
    given = {"subscribe": "t"} | given
    return plan_spans(parse_options({"kafka.bootstrap.servers": broker.address, **given}))


def test_a_plan_has_the_topics_id_and_the_leaders_epoch(broker: ScriptedBroker) -> None:
    fill(broker, [1, 2])
    broker.log("t", 1).cut(0)
    fill(broker, [1, 2, 3], 1)
    topic_id = str(broker.topic_ids["t"])
    assert planned(broker) == [
        Span("t", 0, 0, 4, topic_id, 0),
        Span("t", 1, 0, 6, topic_id, broker.log("t", 1).epochs[-1][0]),
    ]


def test_many_partitions_are_asked_at_once() -> None:
    """Each partition took two requests of its own: a thousand, four seconds before anything was
    read."""
    with ScriptedBroker({"t": 50}) as broker:
        fill(broker, [1, 2], 7)
        assert len(planned(broker, startingTimestamp="1")) == 1
        assert broker.count(ApiKey.LIST_OFFSETS) == 3


def test_offsets_by_the_times_of_each_partition(broker: ScriptedBroker) -> None:
    for partition in range(3):
        fill(broker, [10, 20, 30, 40], partition)
    times = '{"t": {"0": 20, "1": 31, "2": 5}}'
    ends = '{"t": {"0": 40, "1": 99, "2": 11}}'
    found = planned(broker, startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=ends)
    assert [(one.partition, one.start, one.end) for one in found] == [
        (0, 2, 6),
        (1, 6, 8),
        (2, 0, 2),
    ]
    with pytest.raises(UserError, match="startingOffsetsByTimestamp says nothing of t-1"):
        planned(broker, startingOffsetsByTimestamp='{"t": {"0": 20}}')


def test_a_starting_time_that_no_record_has_reached(broker: ScriptedBroker) -> None:
    fill(broker, [10, 20])
    times = '{"t": {"0": 21, "1": 0, "2": 0}}'
    with pytest.raises(UserError, match="t-0 has no record at or after the starting time"):
        planned(broker, startingOffsetsByTimestamp=times)
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert planned(broker, startingOffsetsByTimestamp=times, **latest) == []
    assert planned(broker, startingTimestamp="21") == []


def test_what_no_task_may_read_is_refused_by_the_plan(broker: ScriptedBroker) -> None:
    """Who may see a topic may not always read it: each task was tried four times to find out."""
    fill(broker, [1, 2])
    broker.script(ApiKey.FETCH, Refuse(CODES["TOPIC_AUTHORIZATION_FAILED"]))
    with pytest.raises(KafkaError, match="t-0 at offset 0: TOPIC_AUTHORIZATION_FAILED"):
        planned(broker)
    broker.script(ApiKey.FETCH, Refuse(CODES["OFFSET_OUT_OF_RANGE"]))
    assert len(planned(broker)) == 1


def test_an_ending_time_bounds_what_is_read(broker: ScriptedBroker) -> None:
    """One minute out of the first tenth of a log read the other nine tenths, too."""
    fill(broker, [minute * 60_000 for minute in range(600)])
    first, last = 60_000, 120_000
    wanted = {"startingTimestamp": str(first), "endingTimestamp": str(last)}
    (span,) = planned(broker, **wanted)
    assert (span.start, span.end, span.left_out) == (2, 2 * 62, 1200)
    (span,) = planned(broker, **wanted, endingLateness="0")
    assert (span.start, span.end, span.left_out) == (2, 4, 1200)
    (span,) = planned(broker, **wanted, endingLateness="all")
    assert (span.start, span.end, span.left_out) == (2, 1200, 0)


def test_what_is_left_out_is_told_behind_the_last_piece(broker: ScriptedBroker) -> None:
    fill(broker, [minute * 60_000 for minute in range(600)])
    found = planned(
        broker, mode="stamps", endingTimestamp="120000", endingLateness="0", rowsPerPartition="2"
    )
    assert [(one.start, one.end, one.left_out) for one in found] == [(0, 2, 0), (2, 4, 1200)]
    only_later = {"startingOffsets": '{"t": {"0": 400, "1": -2, "2": -2}}'}
    end = {"endingTimestamp": "120000", "endingLateness": "0"}
    (span,) = planned(broker, mode="stamps", **only_later, **end)
    assert (span.start, span.end, span.left_out) == (400, 400, 1200)
    assert planned(broker, **only_later, **end) == [], "no row among records tells it"


def test_a_clock_that_was_wrong_once_hides_nothing(broker: ScriptedBroker) -> None:
    """A record from the year 2100 stands at the beginning: all that follows has an earlier time,
    and none of it would be read."""
    fill(broker, [4_102_444_800_000, *range(0, 600 * 60_000, 60_000)])
    (span,) = planned(broker, endingTimestamp="120000", endingLateness="60000")
    assert (span.start, span.end, span.left_out) == (0, 2 + 2 * 3, 1202)


@pytest.mark.parametrize(("size", "end"), [(1, 2 * (360 + 120)), (20_000, 2 * 720)])
def test_older_records_that_came_later_are_read(
    broker: ScriptedBroker, size: int, end: int
) -> None:
    """Where they stand too far behind to be found one by one, the log is read to its end."""
    fill(broker, [*range(0, 6 * HOUR, 60_000), *range(0, 6 * HOUR, 60_000)], size=size)
    (span,) = planned(broker, endingTimestamp=str(HOUR))
    assert (span.end, span.left_out) == (end, 0 if end == 1440 else 1440)


def test_a_log_without_any_order_is_read_to_its_end(broker: ScriptedBroker) -> None:
    fill(broker, [HOUR * (number % 7) for number in range(700)], size=9_000)
    (span,) = planned(broker, endingTimestamp=str(HOUR))
    assert (span.end, span.left_out) == (1400, 0)
