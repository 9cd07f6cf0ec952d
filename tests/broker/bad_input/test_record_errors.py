"""A refused batch is answered with the records that are to blame (KIP-467), by our broker as by
Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from admin_wire import create, fresh
from broker_kinds import KINDS, AnyBroker, either_broker
from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient

Rows = Sequence[tuple[bytes | None, int]]


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


def now_ms() -> int:
    return int(time.time() * 1000)


def made(wire: WireClient, **configs: str) -> str:
    topic = fresh()
    named = {name.replace("_", "."): value for name, value in configs.items()}
    assert create(wire, topic, configs=named).error_code == 0
    eventually(lambda: produce(wire, topic, [(b"first", now_ms())]).error_code == 0)
    return topic


def produce(
    wire: WireClient, topic: str, rows: Rows, version: int = 11, codec: str = "none"
) -> Any:
    batch = encode_batch([(key, b"v" * 10, (), at) for key, at in rows], compression=codec)
    part = m.ProduceRequestPartition(index=0, records=batch)
    named = m.ProduceRequestTopic(name=topic, partition_data=[part])
    request = m.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[named])
    return wire.ask(request, version).responses[0].partition_responses[0]


def blamed(answer: Any) -> list[int]:
    return [each.batch_index for each in answer.record_errors]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_records_without_a_key_are_named(wire: WireClient, codec: str) -> None:
    """A batch of forty records to a compacted topic, two of them without a key. The whole batch
    was INVALID_RECORD, and the application could not tell which messages to mend."""
    topic = made(wire, cleanup_policy="compact")
    rows = [(None if n in (3, 17) else b"k%d" % n, now_ms()) for n in range(40)]
    answer = produce(wire, topic, rows, codec=codec)
    assert answer.error_code == CODES["INVALID_RECORD"]
    assert blamed(answer) == [3, 17]
    assert all("key" in each.batch_index_error_message for each in answer.record_errors)
    assert answer.error_message
    assert (answer.base_offset, answer.log_start_offset) == (-1, 0)


@pytest.mark.parametrize("shift", [-3_600_000, 3_600_000])
def test_records_out_of_the_limits_on_time_are_named(wire: WireClient, shift: int) -> None:
    """The records before the limit were only noticed when they were the first of their batch."""
    limits = dict.fromkeys(
        ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"), "600000"
    )
    topic = made(wire, **limits)
    now = now_ms()
    rows = [(b"k", now + (shift if n in (1, 4) else 0)) for n in range(6)]
    answer = produce(wire, topic, rows)
    assert answer.error_code == CODES["INVALID_TIMESTAMP"]
    assert blamed(answer) == [1, 4]
    assert str(now + shift) in answer.record_errors[0].batch_index_error_message
    assert answer.log_start_offset == 0
    assert produce(wire, topic, [(b"k", now)] * 3).base_offset == 1, "nothing of it was appended"


def test_the_answer_tells_where_the_log_begins_now(wire: WireClient) -> None:
    topic = made(wire, cleanup_policy="compact,delete")
    for _ in range(2):
        produce(wire, topic, [(b"k", now_ms())])
    part = m.DeleteRecordsRequestPartition(partition_index=0, offset=2)
    named = m.DeleteRecordsRequestTopic(name=topic, partitions=[part])
    wire.ask(m.DeleteRecordsRequest(topics=[named], timeout_ms=5000), 2)
    refused = produce(wire, topic, [(None, now_ms())])
    assert (blamed(refused), refused.log_start_offset) == ([0], 2)
    assert produce(wire, topic, [(b"k", now_ms())]).log_start_offset == 2


def test_older_versions_have_no_place_for_it(wire: WireClient) -> None:
    topic = made(wire, cleanup_policy="compact")
    answer = produce(wire, topic, [(None, now_ms())], version=7)
    assert answer.error_code == CODES["INVALID_RECORD"]
    assert (answer.record_errors, answer.log_start_offset) == ((), 0)
