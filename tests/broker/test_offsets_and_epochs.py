"""OffsetCommit, OffsetFetch, FindCoordinator, ListOffsets, OffsetForLeaderEpoch, InitProducerId:
over a real socket, in every version served."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from eventually import eventually

from tallymark.errors import CODES
from tallymark.groups.records import OffsetKey, decode_key, decode_offset
from tallymark.protocol.messages import (
    DeleteTopicsRequest,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def wire(broker: BrokerThread) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        coordinator(client, "g")
        yield client


@pytest.fixture
def topic(wire: WireClient) -> str:
    """A topic of three records with the timestamps 100, 300, 200."""
    name = f"t{uuid.uuid4().hex[:8]}"
    wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    for timestamp in (100, 300, 200):
        records = encode_batch([(None, b"x", (), timestamp)])
        part = ProduceRequestPartition(index=0, records=records)
        topics = [ProduceRequestTopic(name=name, partition_data=[part])]
        wire.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), 9)
    return name


def coordinator(wire: WireClient, group: str) -> None:
    """Find the coordinator and wait until it has loaded, as clients do."""
    wire.ask(FindCoordinatorRequest(key=group), 0)
    loading = CODES["COORDINATOR_LOAD_IN_PROGRESS"]
    eventually(lambda: fetched(wire, group, "any")[2] != loading, what="it has loaded")


def commit(
    wire: WireClient,
    topic: str,
    offset: int,
    version: int = 7,
    group: str = "g",
    member: str = "",
    generation: int = -1,
) -> int:
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=0, committed_metadata="m"
    )
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )
    return wire.ask(request, version).topics[0].partitions[0].error_code


def fetched(
    wire: WireClient, group: str, topic: str, version: int = 7
) -> tuple[int, str | None, int]:
    """(offset, metadata, error)."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    if version < 8:
        answer = wire.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
        found, error = answer.topics, answer.error_code
    else:
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        of_group = wire.ask(asked, version).groups[0]
        found, error = of_group.topics, of_group.error_code
    part = found[0].partitions[0]
    return part.committed_offset, part.metadata, error or part.error_code


def test_commit_in_every_version(wire: WireClient, topic: str) -> None:
    for version in range(2, 10):
        assert commit(wire, topic, version, version) == 0
        assert fetched(wire, "g", topic) == (version, "m", 0)


def test_fetch_committed_in_every_version(wire: WireClient, topic: str) -> None:
    commit(wire, topic, 3)
    for version in range(1, 10):
        assert fetched(wire, "another", topic, version) == (-1, "", 0), version
        assert fetched(wire, "g", topic, version) == (3, "m", 0), version


def test_null_asks_for_everything_of_a_group(wire: WireClient, topic: str) -> None:
    commit(wire, topic, 2, group="whole")
    answer = wire.ask(OffsetFetchRequest(group_id="whole", topics=None), 7)
    assert [(t.name, t.partitions[0].committed_offset) for t in answer.topics] == [(topic, 2)]


def test_commits_that_are_refused(wire: WireClient, topic: str) -> None:
    assert commit(wire, "nowhere", 1) == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert commit(wire, topic, 1, group="") == CODES["INVALID_GROUP_ID"]
    old, new = (
        commit(wire, topic, 1, version, group="nobody", member="m", generation=4)
        for version in (8, 9)
    )
    assert (old, new) == (CODES["ILLEGAL_GENERATION"], CODES["GROUP_ID_NOT_FOUND"])
    commit(wire, topic, 1, group="simple")
    stranger = commit(wire, topic, 2, group="simple", member="m", generation=4)
    assert stranger == CODES["UNKNOWN_MEMBER_ID"]
    assert fetched(wire, "g", topic) == (-1, "", 0)


def test_commits_are_records_in_kafkas_format(wire: WireClient, topic: str) -> None:
    """So that other tools can read __consumer_offsets."""
    commit(wire, topic, 42, group="readable")
    part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = [FetchRequestTopic(topic=OFFSETS_TOPIC, partitions=[part])]
    answer = wire.ask(FetchRequest(max_bytes=1_000_000, topics=topics), 11)
    batches = split_batches(answer.responses[0].partitions[0].records or b"")
    found = {
        decode_key(bytes(r.key or b"")): decode_offset(bytes(r.value))
        for batch in batches
        for r in batch.records()
        if r.value is not None
    }
    committed = found[OffsetKey("readable", topic, 0)]
    assert (committed.offset, committed.metadata, committed.leader_epoch) == (42, "m", 0)


def test_a_deleted_topics_offsets_are_forgotten(wire: WireClient, topic: str) -> None:
    """A partition that was given up took the coordinator of the groups with its number with it,
    whatever topic it was of: after a deletion every group got NOT_COORDINATOR."""
    commit(wire, topic, 2)
    wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 3)
    wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    assert fetched(wire, "g", topic) == (-1, "", 0)


@pytest.mark.parametrize("version", range(7))
def test_this_broker_coordinates_every_group(
    broker: BrokerThread, wire: WireClient, version: int
) -> None:
    if version < 4:
        answer = wire.ask(FindCoordinatorRequest(key="any"), version)
        found = (answer.error_code, answer.node_id, f"{answer.host}:{answer.port}")
    else:
        many = wire.ask(FindCoordinatorRequest(coordinator_keys=["any", ""]), version).coordinators
        found = (many[0].error_code, many[0].node_id, f"{many[0].host}:{many[0].port}")
        assert many[1].error_code == CODES["INVALID_GROUP_ID"]
    assert found == (0, 0, broker.bootstrap_servers)


def test_no_empty_id_and_no_share_group_has_a_coordinator(wire: WireClient) -> None:
    """A code that clients retry would make init_transactions() hang."""
    invalid = CODES["INVALID_REQUEST"]
    assert wire.ask(FindCoordinatorRequest(key="", key_type=1), 3).error_code == invalid
    assert wire.ask(FindCoordinatorRequest(key="x", key_type=2), 3).error_code == invalid
    refused = wire.ask(InitProducerIdRequest("", 1000), 4)
    assert (refused.error_code, refused.producer_id) == (invalid, -1)


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_given_once(wire: WireClient, version: int) -> None:
    answers = [wire.ask(InitProducerIdRequest(), version) for _ in range(3)]
    assert len({answer.producer_id for answer in answers}) == 3
    assert all((a.error_code, a.producer_epoch) == (0, 0) for a in answers)


def listed(
    wire: WireClient, topic: str, timestamp: int, version: int = 7, epoch: int = -1
) -> ListOffsetsResponsePartition:
    part = ListOffsetsRequestPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
    )
    topics = [ListOffsetsRequestTopic(name=topic, partitions=[part])]
    return wire.ask(ListOffsetsRequest(topics=topics), version).topics[0].partitions[0]


def test_offsets_in_every_version(wire: WireClient, topic: str) -> None:
    for version in range(1, 10):
        _check_offsets(wire, topic, version)


def _check_offsets(wire: WireClient, topic: str, version: int) -> None:
    def found(timestamp: int) -> tuple[int, int, int]:
        part = listed(wire, topic, timestamp, version)
        return part.error_code, part.offset, part.timestamp

    assert found(-1) == (0, 3, -1)
    assert found(-2) == (0, 0, -1)
    assert found(100) == (0, 0, 100)
    assert found(101) == (0, 1, 300)
    assert found(301) == (0, -1, -1)
    old = CODES["UNSUPPORTED_VERSION"]
    assert found(-3) == ((0, 1, 300) if version >= 7 else (old, -1, -1))
    assert found(-4) == ((0, 0, -1) if version >= 8 else (old, -1, -1))
    assert found(-5) == ((0, -1, -1) if version >= 9 else (old, -1, -1))
    if version >= 4:
        assert listed(wire, topic, 101, version).leader_epoch == 0
        assert listed(wire, topic, -1, version).leader_epoch == 0


def test_list_offsets_errors(wire: WireClient, topic: str) -> None:
    assert listed(wire, "nowhere", -1).error_code == CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    assert listed(wire, topic, -1, epoch=3).error_code == CODES["UNKNOWN_LEADER_EPOCH"]
    assert listed(wire, topic, -1, epoch=0).error_code == 0


def test_where_epochs_end_in_every_version(wire: WireClient, topic: str) -> None:
    for version in range(2, 5):
        _check_epochs(wire, topic, version)


def _check_epochs(wire: WireClient, topic: str, version: int) -> None:
    def end(epoch: int, current: int = -1) -> tuple[int, int, int]:
        part = OffsetForLeaderEpochRequestPartition(
            partition=0, leader_epoch=epoch, current_leader_epoch=current
        )
        topics = [OffsetForLeaderEpochRequestTopic(topic=topic, partitions=[part])]
        answer = wire.ask(OffsetForLeaderEpochRequest(topics=topics), version)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(0) == (0, 0, 3)
    assert end(5) == end(-1) == (0, -1, -1)
    assert end(0, current=9) == (CODES["UNKNOWN_LEADER_EPOCH"], -1, -1)
