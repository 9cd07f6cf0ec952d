"""CreatePartitions, DeleteRecords, DescribeLogDirs, DescribeProducers, DescribeCluster over a real
socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from admin_wire import AllBut, create, fresh

from tallymark.broker.handlers import served
from tallymark.broker.requests.registry import Call
from tallymark.errors import CODES
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponsePartition,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.messages.k03_metadata import OPERATIONS_UNKNOWN
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    folder = tmp_path_factory.mktemp("data")
    with BrokerThread(folder, log_dirs=(folder / "a", folder / "b"), broker_rack="r1") as running:
        yield running


def produce(
    wire: WireClient,
    topic: str,
    count: int,
    producer_id: int = -1,
    epoch: int = -1,
    first: int = -1,
) -> None:
    batch = encode_batch(
        [(None, b"v" * 10, (), 1000 + n) for n in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=first,
    )
    part = ProduceRequestPartition(index=0, records=batch)
    topics = [ProduceRequestTopic(name=topic, partition_data=[part])]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


# --- CreatePartitions


def grow(
    wire: WireClient,
    topic: str,
    count: int,
    brokers: list[list[int]] | None = None,
    version: int = 3,
    validate_only: bool = False,
    timeout_ms: int = 5000,
) -> int:
    placed = None
    if brokers is not None:
        placed = [CreatePartitionsRequestAssignment(broker_ids=each) for each in brokers]
    asked = CreatePartitionsRequestTopic(name=topic, count=count, assignments=placed)
    request = CreatePartitionsRequest(
        topics=[asked], timeout_ms=timeout_ms, validate_only=validate_only
    )
    result = wire.ask(request, version).results[0]
    assert (result.name, result.error_code == 0) == (topic, result.error_message is None)
    return result.error_code


def partitions(broker: BrokerThread, topic: str) -> int:
    assert broker.broker is not None
    assert broker.broker.state is not None
    return len(broker.broker.state.image.topics[topic].partitions)


@pytest.mark.parametrize("version", range(4))
def test_more_partitions_in_every_version(
    broker: BrokerThread, wire: WireClient, version: int
) -> None:
    topic = fresh()
    create(wire, topic, 1)
    produce(wire, topic, 3)
    assert grow(wire, topic, 3, version=version) == 0
    assert partitions(broker, topic) == 3
    assert grow(wire, topic, 5, [[0], [0]], version) == 0
    assert partitions(broker, topic) == 5
    assert latest(wire, topic) == 3, "the records stay where they are"


def test_validation_only_adds_nothing(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    assert grow(wire, topic, 2, validate_only=True) == 0
    assert partitions(broker, topic) == 1


@pytest.mark.parametrize(
    ("count", "brokers", "error"),
    [
        (2, None, "INVALID_PARTITIONS"),
        (1, None, "INVALID_PARTITIONS"),
        (0, None, "INVALID_PARTITIONS"),
        (-5, None, "INVALID_PARTITIONS"),
        (2**31 - 1, None, "INVALID_PARTITIONS"),
        (10_001, None, "INVALID_PARTITIONS"),
        (4, [[0]], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [[0], [7]], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [[0], []], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [[0, 1], [0]], "INVALID_REPLICATION_FACTOR"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_impossible_numbers_and_places(
    broker: BrokerThread,
    wire: WireClient,
    count: int,
    brokers: list[list[int]] | None,
    error: str,
    validate_only: bool,
) -> None:
    topic = fresh()
    create(wire, topic, 2)
    assert grow(wire, topic, count, brokers, validate_only=validate_only) == CODES[error]
    assert partitions(broker, topic) == 2


def test_ten_thousand_partitions_in_one_request_are_the_most(
    broker: BrokerThread, wire: WireClient
) -> None:
    one, two = fresh(), fresh()
    create(wire, one)
    create(wire, two)
    asked = [CreatePartitionsRequestTopic(name=name, count=6000) for name in (one, two)]
    answer = wire.ask(CreatePartitionsRequest(topics=asked, timeout_ms=5000), 3)
    assert [each.error_code for each in answer.results] == [CODES["POLICY_VIOLATION"]] * 2
    assert (partitions(broker, one), partitions(broker, two)) == (1, 1)


def test_topics_that_cannot_grow(broker: BrokerThread, wire: WireClient) -> None:
    assert grow(wire, "nowhere", 2) == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert grow(wire, "a/b", 2) == CODES["INVALID_TOPIC_EXCEPTION"]
    assert grow(wire, "__consumer_offsets", 20) == CODES["INVALID_TOPIC_EXCEPTION"]
    topic = fresh()
    create(wire, topic)
    asked = CreatePartitionsRequestTopic(name=topic, count=2)
    answer = wire.ask(CreatePartitionsRequest(topics=[asked, asked], timeout_ms=1000), 3)
    assert [each.error_code for each in answer.results] == [CODES["INVALID_REQUEST"]] * 2
    assert partitions(broker, topic) == 1


# --- DeleteRecords


def delete(
    wire: WireClient, topic: str, *offsets: int, index: int = 0, version: int = 2
) -> list[tuple[int, int]]:
    asked = [DeleteRecordsRequestPartition(partition_index=index, offset=each) for each in offsets]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequestTopic(name=topic, partitions=asked)], timeout_ms=1000
    )
    (answer,) = wire.ask(request, version).topics
    assert answer.name == topic
    return [(each.error_code, each.low_watermark) for each in answer.partitions]


def offset_at(wire: WireClient, topic: str, timestamp: int) -> int:
    part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsRequestTopic(name=topic, partitions=[part])]
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 5)
    return answer.topics[0].partitions[0].offset


def latest(wire: WireClient, topic: str) -> int:
    return offset_at(wire, topic, -1)


def fetch(
    wire: WireClient, topic: str, offset: int, wait_ms: int = 0, min_bytes: int = 1
) -> FetchResponsePartition:
    part = FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=10_000,
        topics=[FetchRequestTopic(topic=topic, partitions=[part])],
    )
    return wire.ask(request, 11).responses[0].partitions[0]


@pytest.mark.parametrize("version", range(3))
def test_records_go_in_every_version(wire: WireClient, version: int) -> None:
    topic = fresh()
    create(wire, topic)
    produce(wire, topic, 10)
    assert delete(wire, topic, 4, version=version) == [(0, 4)]
    assert offset_at(wire, topic, -2) == 4
    assert fetch(wire, topic, 3).error_code == CODES["OFFSET_OUT_OF_RANGE"]
    kept = fetch(wire, topic, 4)
    assert (kept.error_code, kept.log_start_offset) == (0, 4)
    assert delete(wire, topic, 2, version=version) == [(0, 4)], "nothing comes back"
    assert delete(wire, topic, -1, version=version) == [(0, 10)]
    produce(wire, topic, 1)
    assert latest(wire, topic) == 11


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        with WireClient(broker.bootstrap_servers) as wire:
            create(wire, "t")
            produce(wire, "t", 10)
            assert delete(wire, "t", 7) == [(0, 7)]
        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as wire:
            assert offset_at(wire, "t", -2) == 7


def test_records_that_cannot_be_deleted(wire: WireClient) -> None:
    topic, compacted = fresh(), fresh()
    create(wire, topic)
    create(wire, compacted, configs={"cleanup.policy": "compact"})
    produce(wire, topic, 5)
    out = (CODES["OFFSET_OUT_OF_RANGE"], -1)
    wrong = delete(wire, topic, 6, -2, 2**63 - 1, -(2**63))
    assert wrong == [out] * 4
    assert delete(wire, topic, 0, index=1) == [(CODES["UNKNOWN_TOPIC_OR_PARTITION"], -1)]
    assert delete(wire, topic, 0, index=-1) == [(CODES["UNKNOWN_TOPIC_OR_PARTITION"], -1)]
    assert delete(wire, "nowhere", 0) == [(CODES["UNKNOWN_TOPIC_OR_PARTITION"], -1)]
    assert delete(wire, "__consumer_offsets", 0) == [(CODES["INVALID_TOPIC_EXCEPTION"], -1)]
    assert delete(wire, compacted, 0) == [(CODES["POLICY_VIOLATION"], -1)]
    assert offset_at(wire, topic, -2) == 0


@pytest.mark.parametrize(
    "request_",
    [
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequestTopic(
                    name="t", partitions=[DeleteRecordsRequestPartition(partition_index=0)]
                )
            ]
            * 500
        ),
        DescribeProducersRequest(
            topics=[DescribeProducersRequestTopic(name="t", partition_indexes=[0])] * 500
        ),
    ],
)
def test_many_topics_of_one_partition_do_not_hold_up_others(
    request_: Any,
) -> None:
    """Turns were counted within a topic: a request of very many topics, each with one partition,
    never gave others theirs."""
    api, turns = served()[request_.api_key], 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def scenario() -> int:
        task = asyncio.create_task(others())
        state: Any = SimpleNamespace(
            authorizer=AllBut(
                (Operation.DELETE, ResourceType.TOPIC, None),
                (Operation.READ, ResourceType.TOPIC, None),
            )
        )
        nobody: Any = SimpleNamespace(principal="User:n", host="h")
        assert api.handle is not None
        answer: Any = await cast(
            "Awaitable[Any]", api.handle(state, request_, Call(0, None, nobody))
        )
        task.cancel()
        return len(answer.topics)

    assert asyncio.run(scenario()) == 500
    assert turns >= 5


def test_the_same_partition_twice_is_done_twice(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    produce(wire, topic, 5)
    assert delete(wire, topic, 2, 4, 1) == [(0, 2), (0, 4), (0, 4)]


def test_a_reader_that_waits_below_is_told_at_once(broker: BrokerThread, wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    produce(wire, topic, 5)
    found: list[FetchResponsePartition] = []

    def read() -> None:
        with WireClient(broker.bootstrap_servers, timeout=60) as other:
            found.append(fetch(other, topic, 0, wait_ms=50_000, min_bytes=9_000))

    reader = threading.Thread(target=read)
    reader.start()
    assert broker.broker is not None
    assert broker.broker.state is not None
    partition = broker.broker.state.partitions.find(topic, 0)
    while not partition.waiting:
        time.sleep(0.01)
    assert delete(wire, topic, 3) == [(0, 3)]
    reader.join(20)
    assert [each.error_code for each in found] == [CODES["OFFSET_OUT_OF_RANGE"]]


# --- DescribeLogDirs


def log_dirs(
    wire: WireClient, version: int = 4, topics: list[tuple[str, list[int]]] | None = None
) -> DescribeLogDirsResponse:
    asked = None
    if topics is not None:
        asked = [DescribeLogDirsRequestTopic(topic=name, partitions=p) for name, p in topics]
    return wire.ask(DescribeLogDirsRequest(topics=asked), version)


def sizes(answer: DescribeLogDirsResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.partition_size
        for folder in answer.results
        for topic in folder.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 5))
def test_folders_and_their_logs_in_every_version(
    broker: BrokerThread, wire: WireClient, version: int
) -> None:
    topic = fresh()
    create(wire, topic, 2)
    produce(wire, topic, 10)
    answer = log_dirs(wire, version)
    assert answer.error_code == 0
    expected = [str(path) for path in broker.settings.log_dirs]
    assert [folder.log_dir for folder in answer.results] == expected
    assert all(folder.error_code == 0 for folder in answer.results)
    found = sizes(answer)
    assert found[topic, 0] > 100
    assert found[topic, 1] == 0
    assert [len(folder.topics) > 0 for folder in answer.results] == [True, True]
    if version >= 4:
        for folder in answer.results:
            assert 0 <= folder.usable_bytes <= folder.total_bytes
            assert folder.total_bytes > 0


def test_folders_tell_what_is_asked_for(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic, 2)
    asked = [(topic, [1, 1, -1, 77]), ("nowhere", [0]), ("x" * 30_000, [0])]
    assert sizes(log_dirs(wire, topics=asked)) == {(topic, 1): 0}
    assert sizes(log_dirs(wire, topics=[])) == {}


# --- DescribeProducers


def producers(
    wire: WireClient, topic: str, *indexes: int
) -> list[DescribeProducersResponsePartition]:
    asked = DescribeProducersRequestTopic(name=topic, partition_indexes=indexes)
    (answer,) = wire.ask(DescribeProducersRequest(topics=[asked]), 0).topics
    assert answer.name == topic
    return list(answer.partitions)


def test_who_writes_with_a_producer_id(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    produce(wire, topic, 3)
    assert list(producers(wire, topic, 0)[0].active_producers) == []
    produce(wire, topic, 3, producer_id=70, epoch=2, first=0)
    produce(wire, topic, 2, producer_id=70, epoch=2, first=3)
    produce(wire, topic, 1, producer_id=9, epoch=0, first=0)
    low, high = producers(wire, topic, 0)[0].active_producers
    assert (low.producer_id, low.producer_epoch, low.last_sequence) == (9, 0, 0)
    assert (high.producer_id, high.producer_epoch, high.last_sequence) == (70, 2, 4)
    assert (high.coordinator_epoch, high.current_txn_start_offset) == (-1, -1)
    assert high.last_timestamp > 1_700_000_000_000


def test_partitions_without_producers(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    found = producers(wire, topic, 0, 1, -1, 0)
    unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert [each.error_code for each in found] == [0, unknown, unknown, CODES["INVALID_REQUEST"]]
    assert [each.partition_index for each in found] == [0, 1, -1, 0]
    assert producers(wire, "nowhere", 0)[0].error_code == unknown


# --- DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_in_every_version(broker: BrokerThread, wire: WireClient, version: int) -> None:
    answer = wire.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.controller_id) == (0, 0)
    assert answer.cluster_id
    (only,) = answer.brokers
    assert (only.broker_id, only.rack, only.is_fenced) == (0, "r1", False)
    assert f"{only.host}:{only.port}" == broker.bootstrap_servers
    assert answer.cluster_authorized_operations == OPERATIONS_UNKNOWN
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    bits = wire.ask(asked, version).cluster_authorized_operations
    assert [bit for bit in range(32) if bits >> bit & 1] == [5, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (2, "MISMATCHED_ENDPOINT_TYPE"),
        (0, "UNSUPPORTED_ENDPOINT_TYPE"),
        (-3, "UNSUPPORTED_ENDPOINT_TYPE"),
    ],
)
def test_only_brokers_are_described(wire: WireClient, kind: int, error: str) -> None:
    answer = wire.ask(DescribeClusterRequest(endpoint_type=kind), 1)
    assert answer.error_code == CODES[error]
    assert answer.error_message
    assert list(answer.brokers) == []
