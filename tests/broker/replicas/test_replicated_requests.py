"""Produce, ListOffsets, OffsetForLeaderEpoch and DeleteRecords on a partition of three replicas,
over a real socket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from eventually import eventually
from replicated_topic import FETCH_VERSION, ReplicatedTopic

from tallymark.broker.monitoring.families import families
from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.replication.model import Assignment, BrokerView
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.wire import WireClient

MAX_TIMESTAMP = -3


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


@pytest.fixture
def follower(broker: BrokerThread) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as client:
        yield client


def new_topic(broker: BrokerThread, **fields: Any) -> ReplicatedTopic:
    return ReplicatedTopic(broker, f"t{uuid.uuid4().hex[:8]}", **fields)


def code_of(response: m.ProduceResponse) -> str:
    ((part,),) = (topic.partition_responses for topic in response.responses)
    return next(name for name, code in CODES.items() if code == part.error_code)


def produced(wire: WireClient) -> str:
    return code_of(decode_response(wire.frame(), m.ProduceRequest, 9)[1])


def without(topic: ReplicatedTopic, *brokers: int) -> None:
    """These are not registered any more."""
    left = {one: BrokerView(one, 10 + one) for one in (0, 1, 2) if one not in brokers}
    topic.on_loop(lambda: topic.leads.brokers_changed(left))
    topic.look_over()


# --- DescribeProducers


def test_who_only_follows_tells_the_producers_of_its_own_log(
    wire: WireClient, broker: BrokerThread
) -> None:
    """``kafka-transactions.sh find-hanging --broker-id 0`` asks broker 0 for each replica that it
    has, and ended with "Failed to describe producers for 65 partitions"."""
    topic = new_topic(broker)
    asked = m.DescribeProducersRequestTopic(name=topic.name, partition_indexes=[0])

    def answer() -> int:
        (found,) = wire.ask(m.DescribeProducersRequest(topics=[asked]), 0).topics
        return found.partitions[0].error_code

    partitions, partition = topic.broker_state.partitions, topic.partition
    topic.on_loop(lambda: partitions.hold(partition))
    assert answer() == 0
    topic.on_loop(lambda: partitions.remove(partition))
    assert answer() == CODES["NOT_LEADER_OR_FOLLOWER"]


# --- Produce


def test_acks_all_is_answered_when_the_followers_have_it(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker)
    wire.send(topic.produce(), 9)
    eventually(lambda: topic.partition.log.end_offset == 1)
    topic.copied(follower, 1, (1,))
    assert topic.partition.high_watermark == 0
    topic.copied(follower, 1, (2,))
    assert produced(wire) == "NONE"


def test_acks_all_waits_without_a_task(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker)
    before = topic.tasks()
    for _ in range(20):
        wire.send(topic.produce(), 9)
    eventually(lambda: topic.partition.log.end_offset == 20)
    assert topic.tasks() == before
    topic.copied(follower, 20)
    assert [produced(wire) for _ in range(20)] == ["NONE"] * 20


@pytest.mark.parametrize(("acks", "answer"), [(1, "NONE"), (-1, "NOT_ENOUGH_REPLICAS")])
def test_only_acks_all_looks_at_who_is_in_sync(
    wire: WireClient, broker: BrokerThread, acks: int, answer: str
) -> None:
    topic = new_topic(broker)
    without(topic, 1, 2)
    assert code_of(wire.ask(topic.produce(acks=acks), 9)) == answer
    assert topic.partition.log.end_offset == (1 if acks == 1 else 0)


def test_too_few_in_sync_after_the_append(wire: WireClient, broker: BrokerThread) -> None:
    topic = new_topic(broker)
    wire.send(topic.produce(), 9)
    eventually(lambda: topic.partition.log.end_offset == 1)
    without(topic, 1, 2)
    assert produced(wire) == "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


@pytest.mark.parametrize("timeout_ms", [0, 1, -5])
def test_time_is_up(wire: WireClient, broker: BrokerThread, timeout_ms: int) -> None:
    topic = new_topic(broker)
    assert code_of(wire.ask(topic.produce(timeout_ms=timeout_ms), 9)) == "REQUEST_TIMED_OUT"
    assert topic.partition.log.end_offset == 1  # it may be committed all the same


@pytest.mark.parametrize(
    ("deleted", "answer"), [(False, "NOT_LEADER_OR_FOLLOWER"), (True, "UNKNOWN_TOPIC_OR_PARTITION")]
)
def test_the_lead_is_lost_while_a_producer_waits(
    wire: WireClient, broker: BrokerThread, deleted: bool, answer: str
) -> None:
    topic = new_topic(broker)
    wire.send(topic.produce(), 9)
    eventually(lambda: topic.partition.log.end_offset == 1)
    state = topic.broker_state
    topic.on_loop(lambda: state.partitions.remove(topic.partition, deleted=deleted))
    assert produced(wire) == answer


def test_a_request_for_several_partitions_is_answered_by_the_slowest(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    first, second, third = (new_topic(broker) for _ in range(3))
    without(third, 1, 2)
    topics = [topic for each in (first, second, third) for topic in each.produce().topic_data]
    wire.send(m.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 9)
    eventually(lambda: second.partition.log.end_offset == 1)
    first.copied(follower, 1)
    without(second, 1, 2)
    _, answer = decode_response(wire.frame(), m.ProduceRequest, 9)
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [
        0,
        CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"],
        CODES["NOT_ENOUGH_REPLICAS"],
    ]


def test_what_a_client_that_is_gone_has_sent_is_committed(
    follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker)
    with WireClient(broker.bootstrap_servers) as gone:
        gone.send(topic.produce(), 9)
        eventually(lambda: topic.on_loop(lambda: topic.waiting) == 1)
    topic.copied(follower, 1)
    assert topic.on_loop(lambda: topic.waiting) == 0
    assert topic.partition.high_watermark == 1


def test_a_large_batch_that_is_prepared_apart_waits_as_well(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    """It is compressed again in a thread; what becomes of the replicas meanwhile counts."""
    topic = new_topic(broker, configs={"compression.type": "gzip"})
    value = bytes(range(256)) * 2000
    wire.send(topic.produce(value=value), 9)
    eventually(lambda: topic.partition.log.end_offset == 1)
    topic.copied(follower, 1)
    assert produced(wire) == "NONE"
    without(topic, 1, 2)
    assert code_of(wire.ask(topic.produce(value=value), 9)) == "NOT_ENOUGH_REPLICAS"
    assert topic.partition.log.end_offset == 1


# --- ListOffsets, OffsetForLeaderEpoch


def listed(
    wire: WireClient,
    topic: ReplicatedTopic,
    timestamp: int,
    version: int = 8,
    *,
    replica_id: int = -1,
    isolation: int = 0,
) -> tuple[str, int]:
    ask = m.ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    topics = [m.ListOffsetsRequestTopic(name=topic.name, partitions=[ask])]
    request = m.ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=topics)
    ((part,),) = (each.partitions for each in wire.ask(request, version).topics)
    return next(n for n, code in CODES.items() if code == part.error_code), part.offset


@pytest.mark.parametrize("version", range(1, 9))
def test_a_new_leader_tells_no_offsets_before_its_epoch_is_committed(
    wire: WireClient, follower: WireClient, broker: BrokerThread, version: int
) -> None:
    """KIP-207: a consumer was told 5 by the old leader and 3 by the new one."""
    topic = new_topic(broker, records=5, known=3)
    refusal = "OFFSET_NOT_AVAILABLE" if version >= 5 else "LEADER_NOT_AVAILABLE"
    assert listed(wire, topic, LATEST, version) == (refusal, -1)
    assert listed(wire, topic, EARLIEST, version) == ("NONE", 0)
    assert listed(wire, topic, 2, version) == ("NONE", 2)  # committed, as it knows
    assert listed(wire, topic, 3, version) == (refusal, -1)
    topic.copied(follower, 5)
    assert listed(wire, topic, LATEST, version) == ("NONE", 5)
    assert listed(wire, topic, 3, version) == ("NONE", 3)
    assert listed(wire, topic, 99, version) == ("NONE", -1)


def test_consumers_are_told_what_is_committed_and_followers_the_end(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker, records=3)
    topic.copied(follower, 3)
    wire.ask(topic.produce(acks=1, timestamp=1000), 9)
    for isolation in (0, 1):
        assert listed(wire, topic, LATEST, isolation=isolation) == ("NONE", 3)
        assert listed(wire, topic, MAX_TIMESTAMP, isolation=isolation) == ("NONE", 2)
    assert listed(wire, topic, LATEST, replica_id=1) == ("NONE", 4)
    assert listed(wire, topic, MAX_TIMESTAMP, replica_id=1) == ("NONE", 3)
    assert listed(wire, topic, LATEST, replica_id=-2) == ("NONE", 3)


@pytest.mark.parametrize("replica_id", [-2, -1, 1])
def test_the_latest_epoch_ends_where_the_log_does(
    wire: WireClient, broker: BrokerThread, replica_id: int
) -> None:
    """Were it cut off at a high watermark that lags behind, a consumer that was told of more by the
    leader before would take it for lost."""
    topic = new_topic(broker, records=5, known=3)
    ask = m.OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=0)
    topics = [m.OffsetForLeaderEpochRequestTopic(topic=topic.name, partitions=[ask])]
    request = m.OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)
    ((part,),) = (each.partitions for each in wire.ask(request, 4).topics)
    assert (part.error_code, part.leader_epoch, part.end_offset) == (0, 0, 5)


def test_a_broker_may_ask_a_replica_that_does_not_lead_where_its_log_ends(
    wire: WireClient, broker: BrokerThread
) -> None:
    """The controller looks for the longest log. Clients are sent to the leader, and an asker of
    another leader epoch is refused: the log may still grow."""
    topic = new_topic(broker, records=5)
    partition = topic.partition
    topic.on_loop(lambda: topic.broker_state.partitions.hold(partition))

    def asked(replica_id: int, epoch: int) -> tuple[str, int, int]:
        ask = m.OffsetForLeaderEpochRequestPartition(
            partition=0, current_leader_epoch=epoch, leader_epoch=epoch
        )
        topics = [m.OffsetForLeaderEpochRequestTopic(topic=topic.name, partitions=[ask])]
        request = m.OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)
        ((part,),) = (each.partitions for each in wire.ask(request, 4).topics)
        name = next(name for name, code in CODES.items() if code == part.error_code)
        return name, part.leader_epoch, part.end_offset

    assert asked(9, 0) == ("NONE", 0, 5)
    assert asked(9, 1) == ("UNKNOWN_LEADER_EPOCH", -1, -1)
    assert asked(-1, 0) == ("NOT_LEADER_OR_FOLLOWER", -1, -1)


# --- DeleteRecords


def delete(topic: ReplicatedTopic, offset: int, timeout_ms: int) -> m.DeleteRecordsRequest:
    part = m.DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    topics = [m.DeleteRecordsRequestTopic(name=topic.name, partitions=[part])]
    return m.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def deleted(response: m.DeleteRecordsResponse) -> tuple[str, int]:
    ((part,),) = (topic.partitions for topic in response.topics)
    name = next(name for name, code in CODES.items() if code == part.error_code)
    return name, part.low_watermark


def test_deleted_records_are_waited_for_on_every_live_replica(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker, records=5)
    topic.copied(follower, 5)
    wire.send(delete(topic, 4, 60_000), 2)
    eventually(lambda: topic.partition.log.start_offset == 4)
    follower.ask(topic.fetch(1, 5, log_start=4), FETCH_VERSION)
    follower.ask(topic.fetch(2, 5, log_start=4), FETCH_VERSION)
    _, answer = decode_response(wire.frame(), m.DeleteRecordsRequest, 2)
    assert deleted(answer) == ("NONE", 4)


def test_deleted_records_that_a_replica_keeps_are_said(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker, records=5)
    topic.copied(follower, 5)
    assert deleted(wire.ask(delete(topic, 4, 1), 2)) == ("REQUEST_TIMED_OUT", 4)
    without(topic, 1, 2)
    assert deleted(wire.ask(delete(topic, 5, 60_000), 2)) == ("NONE", 5)


def test_nothing_beyond_the_high_watermark_is_deleted(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    topic = new_topic(broker, records=5, known=3)
    assert deleted(wire.ask(delete(topic, 4, 1), 2)) == ("OFFSET_OUT_OF_RANGE", -1)
    topic.copied(follower, 4)
    follower.ask(topic.fetch(1, 4, log_start=4), FETCH_VERSION)
    follower.ask(topic.fetch(2, 4, log_start=4), FETCH_VERSION)
    assert deleted(wire.ask(delete(topic, -1, 60_000), 2)) == ("NONE", 4)


# --- metrics


def test_metrics_tell_of_replicas_that_are_behind(
    wire: WireClient, follower: WireClient, broker: BrokerThread
) -> None:
    def gauges() -> dict[str, float]:
        found = topic.run(families(topic.broker_state))
        return {
            each.name.removeprefix("tallymark_broker_"): each.samples[0].value
            for each in found
            if each.samples
        }

    topic = new_topic(broker, records=1)
    topic.copied(follower, 1)
    before = gauges()
    without(topic, 1, 2)
    after = gauges()
    names = ("under_replicated_partitions", "below_min_isr_partitions", "replicated_partitions")
    assert [after[name] - before[name] for name in names] == [1, 1, 0]
    topic.on_loop(lambda: topic.leads.configured(topic.key, Assignment((0,)), 1))
