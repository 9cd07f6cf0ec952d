"""Produce and Fetch over a real socket, in every version served."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallymark.broker.security.authorizer import Who
from tallymark.errors import CODES
from tallymark.protocol import frames
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
    MetadataRequest,
    MetadataRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import Record, encode_batch, split_batches
from tallymark.protocol.topic_partition import STATE_TOPICS
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data"), message_max_bytes=200_000) as running:
        yield running


@pytest.fixture
def topic(wire: WireClient) -> str:
    name = f"t{uuid.uuid4().hex[:8]}"
    topic_id(wire, name)
    return name


def topic_id(wire: WireClient, name: str) -> uuid.UUID:
    """The topic's id; the first question creates it."""
    answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    return answer.topics[0].topic_id


def produce(
    wire: WireClient, topic: str, records: bytes | None, version: int = 9, partition: int = 0
) -> ProduceResponsePartition:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequestTopic(
                name=topic,
                partition_data=[ProduceRequestPartition(index=partition, records=records)],
            )
        ],
    )
    return wire.ask(request, version).responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offset: int,
    *,
    wait_ms: int = 0,
    min_bytes: int = 1,
    most: int = 1_000_000,
    epoch: int = -1,
    identity: uuid.UUID | None = None,
    partitions: int = 1,
    total: int = 1_000_000,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=total,
        topics=[
            FetchRequestTopic(
                topic=topic,
                topic_id=identity or uuid.UUID(int=0),
                partitions=[
                    FetchRequestPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=most,
                        current_leader_epoch=epoch,
                    )
                    for index in range(partitions)
                ],
            )
        ],
    )


def only(response: FetchResponse) -> FetchResponsePartition:
    return response.responses[0].partitions[0]


def records_of(part: FetchResponsePartition) -> list[Record]:
    return [r for batch in split_batches(part.records or b"") for r in batch.records()]


def batch(*values: bytes, timestamp: int = 1000) -> bytes:
    return encode_batch([(b"k", value, (("h", b"1"),), timestamp) for value in values])


def test_produce_answers_offsets_in_every_version(wire: WireClient, topic: str) -> None:
    for count, version in enumerate(range(3, 12)):
        answer = produce(wire, topic, batch(b"a", b"b"), version)
        assert (answer.error_code, answer.base_offset) == (0, 2 * count), version
        assert answer.log_start_offset == (0 if version >= 5 else -1), version


def test_fetch_returns_the_batches_in_every_version(wire: WireClient, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b"))
    produce(wire, topic, batch(b"c"))
    for version in range(4, 17):
        identity = topic_id(wire, topic) if version >= 13 else None
        part = only(wire.ask(fetch_request(topic, 1, identity=identity), version))
        assert part.error_code == 0, version
        assert part.high_watermark == part.last_stable_offset == 3, version
        # Whole batches: the one that holds offset 1 begins at 0.
        found = [(record.offset, record.value) for record in records_of(part)]
        assert found == [(0, b"a"), (1, b"b"), (2, b"c")], version


@pytest.mark.parametrize("version", range(3))
def test_old_produce_versions_are_advertised_but_refused(wire: WireClient, version: int) -> None:
    """librdkafka before 2.11.1 stops compressing for a broker whose lowest version is above 0."""
    assert produce(wire, "any", batch(b"x"), version).error_code == CODES["UNSUPPORTED_VERSION"]


def test_a_fetch_waits_for_records_and_is_woken_by_them(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    began = time.monotonic()

    def later() -> None:
        with WireClient(broker.bootstrap_servers) as other:
            produce(other, topic, batch(b"late"))

    timer = threading.Timer(0.15, later)
    timer.start()
    part = only(wire.ask(fetch_request(topic, 0, wait_ms=60_000), 12))
    timer.join()
    assert [r.value for r in records_of(part)] == [b"late"]
    assert 0.1 < time.monotonic() - began < 30


def test_a_fetch_gives_up_waiting_after_its_time(wire: WireClient, topic: str) -> None:
    produce(wire, topic, batch(b"x"))
    began = time.monotonic()
    part = only(wire.ask(fetch_request(topic, 0, wait_ms=200, min_bytes=10_000), 12))
    assert time.monotonic() - began > 0.15
    assert len(records_of(part)) == 1, "what there is comes, if not enough"


def test_an_error_does_not_wait(wire: WireClient, topic: str) -> None:
    began = time.monotonic()
    part = only(wire.ask(fetch_request(topic, 99, wait_ms=60_000), 12))
    assert part.error_code == CODES["OFFSET_OUT_OF_RANGE"]
    assert time.monotonic() - began < 30


def test_a_parked_fetch_learns_that_its_topic_was_deleted(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    wire.send(fetch_request(topic, 0, wait_ms=10_000), 12)
    with WireClient(broker.bootstrap_servers) as other:
        deleted = other.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), 5)
        assert deleted.responses[0].error_code == 0
    _, response = frames.decode_response(wire.frame(), FetchRequest, 12)
    assert only(response).error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def test_the_first_batch_comes_even_if_it_is_too_large(wire: WireClient, topic: str) -> None:
    """KIP-74: a reader whose limit is below a batch would hang for ever otherwise."""
    big = batch(b"x" * 100_000)
    produce(wire, topic, big)
    produce(wire, topic, batch(b"second"))
    part = only(wire.ask(fetch_request(topic, 0, most=100), 12))
    assert len(part.records or b"") == len(big)
    part = only(wire.ask(fetch_request(topic, 0, total=100), 12))
    assert len(part.records or b"") == len(big)


def test_the_total_limit_holds_over_partitions(wire: WireClient) -> None:
    name = "limits"
    create = CreateTopicsRequest(
        topics=[CreateTopicsRequestTopic(name=name, num_partitions=3, replication_factor=1)]
    )
    assert wire.ask(create, 4).topics[0].error_code == 0
    for index in range(3):
        produce(wire, name, batch(b"x" * 50_000), partition=index)
    response = wire.ask(fetch_request(name, 0, partitions=3, total=60_000), 12)
    sizes = [len(part.records or b"") for part in response.responses[0].partitions]
    assert sizes[0] > 50_000
    assert sizes[1:] == [0, 0]
    assert [part.high_watermark for part in response.responses[0].partitions] == [1, 1, 1]


def test_large_slices_leave_by_sendfile_and_arrive_whole(wire: WireClient, topic: str) -> None:
    values = [bytes([n]) * 150_000 for n in range(5)]
    for value in values:
        produce(wire, topic, batch(value))
    part = only(wire.ask(fetch_request(topic, 0), 16 - 4))
    assert [r.value for r in records_of(part)] == values


def test_leader_epochs_fence(wire: WireClient, topic: str) -> None:
    produce(wire, topic, batch(b"x"))
    assert only(wire.ask(fetch_request(topic, 0, epoch=0), 12)).error_code == 0
    ahead = only(wire.ask(fetch_request(topic, 0, epoch=7), 12))
    assert ahead.error_code == CODES["UNKNOWN_LEADER_EPOCH"]


def test_unknown_topics_partitions_and_ids(wire: WireClient, topic: str) -> None:
    unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert produce(wire, "nowhere", batch(b"x")).error_code == unknown
    assert produce(wire, topic, batch(b"x"), partition=5).error_code == unknown
    assert produce(wire, topic, batch(b"x"), partition=-1).error_code == unknown
    assert only(wire.ask(fetch_request("nowhere", 0), 12)).error_code == unknown
    by_id = only(wire.ask(fetch_request("", 0, identity=uuid.uuid4()), 16))
    assert by_id.error_code == CODES["UNKNOWN_TOPIC_ID"]


@pytest.mark.parametrize(
    ("records", "name"),
    [
        (None, "INVALID_RECORD"),
        (b"", "INVALID_RECORD"),
        (b"garbage", "CORRUPT_MESSAGE"),
        (b"\0" * 100, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
        (batch(b"x")[:-1], "CORRUPT_MESSAGE"),
        (batch(b"x")[:-1] + b"\xff", "CORRUPT_MESSAGE"),
        (batch(b"x") + batch(b"y"), "INVALID_RECORD"),
        (batch(b"x" * 250_000), "MESSAGE_TOO_LARGE"),
    ],
)
def test_bad_batches_are_refused_and_nothing_is_appended(
    wire: WireClient, topic: str, records: bytes | None, name: str
) -> None:
    answer = produce(wire, topic, records)
    assert answer.error_code == CODES[name]
    assert answer.error_message
    assert produce(wire, topic, batch(b"good")).base_offset == 0


def test_zstd_needs_requests_that_know_it(wire: WireClient, topic: str) -> None:
    squeezed = encode_batch([(None, b"x" * 100, (), 1)], compression="zstd")
    assert produce(wire, topic, squeezed, 6).error_code == CODES["UNSUPPORTED_COMPRESSION_TYPE"]
    assert produce(wire, topic, squeezed, 7).error_code == 0
    old = only(wire.ask(fetch_request(topic, 0), 9))
    assert old.error_code == CODES["UNSUPPORTED_COMPRESSION_TYPE"]
    assert len(records_of(only(wire.ask(fetch_request(topic, 0), 10)))) == 1


def test_an_idempotent_retry_is_answered_with_its_first_offset(
    wire: WireClient, topic: str
) -> None:
    def numbered(first: int) -> bytes:
        rows = [(None, b"a", (), 1), (None, b"b", (), 1)]
        return encode_batch(rows, producer_id=9, producer_epoch=0, base_sequence=first)

    assert produce(wire, topic, numbered(0)).base_offset == 0
    assert produce(wire, topic, numbered(2)).base_offset == 2
    again = produce(wire, topic, numbered(0))
    assert (again.error_code, again.base_offset) == (0, 0)
    gap = produce(wire, topic, numbered(7))
    assert gap.error_code == CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert only(wire.ask(fetch_request(topic, 0), 12)).high_watermark == 4


def test_acks_zero_has_no_answer_and_an_error_closes(
    broker: BrokerThread, wire: WireClient, topic: str
) -> None:
    def fire(name: str) -> None:
        part = ProduceRequestPartition(index=0, records=batch(b"x"))
        topics = [ProduceRequestTopic(name=name, partition_data=[part])]
        wire.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=topics), 9)

    fire(topic)
    assert produce(wire, topic, batch(b"y")).base_offset == 1, (
        "the next answer is the next request's"
    )
    fire("nowhere")
    assert wire.closed_by_peer()


def test_acks_two_is_refused_and_a_plain_batch_needs_no_transaction(
    wire: WireClient, topic: str
) -> None:
    part = ProduceRequestPartition(index=0, records=batch(b"x"))
    topics = [ProduceRequestTopic(name=topic, partition_data=[part])]
    odd = wire.ask(ProduceRequest(acks=2, timeout_ms=1, topic_data=topics), 9)
    assert odd.responses[0].partition_responses[0].error_code == CODES["INVALID_REQUIRED_ACKS"]
    request = ProduceRequest(acks=-1, timeout_ms=1, transactional_id="x", topic_data=topics)
    plain = wire.ask(request, 9).responses[0].partition_responses[0]
    assert (plain.error_code, plain.base_offset) == (0, 0)


def test_a_partition_named_twice_is_appended_once(wire: WireClient, topic: str) -> None:
    part = ProduceRequestPartition(index=0, records=batch(b"x"))
    topics = [ProduceRequestTopic(name=topic, partition_data=[part, part])]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=topics), 9)
    codes = [p.error_code for p in answer.responses[0].partition_responses]
    assert codes == [0, CODES["INVALID_REQUEST"]]
    assert produce(wire, topic, batch(b"y")).base_offset == 1


@pytest.mark.parametrize("own", sorted(STATE_TOPICS))
def test_the_brokers_own_topics_are_not_for_producers(wire: WireClient, own: str) -> None:
    """``__transaction_state`` was not refused: a client that may write everywhere could have
    decided the outcome of others' transactions, at the next load of the coordinator."""
    answer = produce(wire, own, batch(b"x"))
    assert answer.error_code == CODES["INVALID_TOPIC_EXCEPTION"]


def test_pipelined_requests_are_answered_in_order(wire: WireClient, topic: str) -> None:
    part = ProduceRequestPartition(index=0, records=batch(b"x"))
    topics = [ProduceRequestTopic(name=topic, partition_data=[part])]
    sent = [wire.send(ProduceRequest(acks=-1, topic_data=topics), 9) for _ in range(50)]
    answers = [frames.decode_response(wire.frame(), ProduceRequest, 9) for _ in sent]
    assert [correlation for correlation, _ in answers] == sent
    offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answers]
    assert offsets == list(range(50))


def test_a_reader_of_what_was_cut_is_told_where_its_epoch_ends(tmp_path: Path) -> None:
    """KIP-595: it names the epoch of what it read last, and need not ask OffsetForLeaderEpoch."""

    def told(wire: WireClient, offset: int, last_epoch: int) -> FetchResponsePartition:
        ask = FetchRequestPartition(
            partition=0,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=9999,
        )
        topics = [FetchRequestTopic(topic="t", partitions=[ask])]
        return only(wire.ask(FetchRequest(max_wait_ms=5000, min_bytes=1, topics=topics), 12))

    with BrokerThread(tmp_path) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            topic_id(wire, "t")
            produce(wire, "t", batch(b"a", b"b", b"c"))
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            produce(wire, "t", batch(b"d", b"e"))
            old, new = (
                split_batches(only(wire.ask(fetch_request("t", offset), 12)).records or b"")[
                    0
                ].header.partition_leader_epoch
                for offset in (0, 3)
            )
            assert old < new
            cut = told(wire, 5, old)
            assert (cut.diverging_epoch.epoch, cut.diverging_epoch.end_offset) == (old, 3)
            assert (cut.error_code, bytes(cut.records or b"")) == (0, b"")
            fine = told(wire, 3, old)
            assert (fine.diverging_epoch.epoch, len(records_of(fine))) == (-1, 2)
            assert told(wire, 5, new + 1).error_code == CODES["OFFSET_OUT_OF_RANGE"]


class Only:
    """Lets everybody do one thing, to the topic of one name."""

    def __init__(self, operation: Operation, topic: str) -> None:
        self._allowed = (operation, topic)

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        return (operation, name) == self._allowed

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        return operation == self._allowed[0]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_reading_and_writing_are_asked_for(
    broker: BrokerThread, wire: WireClient, topic: str, version: int
) -> None:
    """A writer may not read, nor write elsewhere; one refused topic does not spoil the other."""
    identity = topic_id(wire, topic)
    other = f"{topic}-other"
    topic_id(wire, other)
    assert broker.broker is not None
    state = broker.broker.state
    assert state is not None
    before, denied = state.authorizer, CODES["TOPIC_AUTHORIZATION_FAILED"]
    try:
        state.authorizer = Only(Operation.WRITE, topic)
        assert produce(wire, topic, batch(b"x")).error_code == 0
        assert produce(wire, other, batch(b"x")).error_code == denied
        assert only(wire.ask(fetch_request(topic, 0), version)).error_code == denied
        by_id = fetch_request(topic, 0, identity=identity)
        assert only(wire.ask(by_id, 13)).error_code == denied
        state.authorizer = Only(Operation.READ, topic)
        assert produce(wire, topic, batch(b"x")).error_code == denied
        both = FetchRequest(
            max_bytes=9999,
            topics=[*fetch_request(other, 0).topics, *fetch_request(topic, 0).topics],
        )
        found = [each.partitions[0] for each in wire.ask(both, version).responses]
        assert [part.error_code for part in found] == [denied, 0]
        assert len(records_of(found[1])) == 1
    finally:
        state.authorizer = before
