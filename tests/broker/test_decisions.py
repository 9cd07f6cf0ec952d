"""The pure parts: assignment, leader epochs, topic rules."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.broker.metadata.assignment import grow, place
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.metadata.leader_epoch import next_epoch
from tallymark.broker.partitions.producible import check_producible
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.topic_configs import (
    RULES,
    check_name,
    check_partitions,
    log_config,
    understood,
)
from tallymark.errors import KafkaError
from tallymark.replication.features import REPLICATION, Finalized, Levels
from tallymark.replication.model import Assignment, PartitionState


def cluster(load: Mapping[int, int], *, level: int = 0, racks: str = "") -> MetadataImage:
    """An image in which the brokers have so many partitions; broker n is in the n-th rack."""
    able = {REPLICATION: Levels(0, 1)}
    brokers = {
        one: BrokerImage(one, {}, racks[one] if racks else "", features=able) for one in load
    }
    topics = {
        f"t{one}": TopicImage(
            f"t{one}", uuid.UUID(int=one), (PartitionImage.of(one, 0, (one,), (one,)),) * count
        )
        for one, count in load.items()
    }
    features = Finalized({REPLICATION: level})
    return MetadataImage("c", brokers=brokers, topics=topics, features=features)


def test_partitions_go_round_robin_over_live_brokers() -> None:
    assert place(cluster({2: 0, 0: 0, 1: 0}), 5) == ((0,), (1,), (2,), (0,), (1,))
    assert place(cluster({0: 3, 1: 2}), 1) == ((1,),)
    assert place(cluster({0: 90, 1: 0}), 2) == ((1,), (0,)), (
        "a topic is spread whatever the load is"
    )
    with pytest.raises(KafkaError, match="BROKER_NOT_AVAILABLE"):
        place(cluster({}), 1)


@given(st.integers(1, 60), st.dictionaries(st.integers(0, 9), st.integers(0, 99), min_size=1))
@settings(max_examples=50)
def test_every_topic_is_spread_evenly_and_the_rest_goes_where_the_least_is(
    partitions: int, load: dict[int, int]
) -> None:
    placed = Counter(replicas[0] for replicas in place(cluster(load), partitions))
    counts = [placed[broker] for broker in load]
    assert max(counts) - min(counts) <= 1
    more = [load[broker] for broker in load if placed[broker] == max(counts)]
    fewer = [load[broker] for broker in load if placed[broker] < max(counts)]
    assert not fewer or max(more) <= min(fewer)


def test_topics_only_grow() -> None:
    image = cluster({0: 5, 1: 0})
    topic = image.topics["t0"]
    assert grow(image, topic, 2, 5) == ((1,), (0,), (1,))
    assert grow(image, topic, 2, 3, [[0]]) == ((0,),)
    for count in (2, 1, 0):
        with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
            grow(image, topic, 2, count)
    with pytest.raises(KafkaError, match="INVALID_REPLICA_ASSIGNMENT"):
        grow(image, topic, 2, 5, [[0]])


def test_new_partitions_have_as_many_replicas_as_the_others() -> None:
    image = cluster({0: 0, 1: 0, 2: 0}, level=1)
    moving = PartitionImage(PartitionState(0, 0, (0, 1)), Assignment((0, 1, 2), (2,), (0,)))
    topic = TopicImage("t", uuid.UUID(int=9), (moving,))
    assert topic.factor == 2, "as after the reassignment"
    assert [len(each) for each in grow(image, topic, 1, 3)] == [2, 2]
    assert grow(image, topic, 1, 2, [[2, 0]]) == ((2, 0),)
    with pytest.raises(KafkaError, match="others of the topic have 2"):
        grow(image, topic, 1, 2, [[2]])


def test_replicas_need_the_level_and_as_many_brokers() -> None:
    with pytest.raises(KafkaError, match=r"2 replicas need level 1 of replication.version"):
        place(cluster({0: 0, 1: 0}), 1, 2)
    with pytest.raises(KafkaError, match="need level 1"):
        place(cluster({0: 0, 1: 0}), 1, 1, [[0, 1]])
    image = cluster({0: 0, 1: 0, 2: 0, 3: 0}, level=1, racks="aabb")
    for factor in (0, -2, 5):
        with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
            place(image, 1, factor)
    for replicas in place(image, 8, 2):
        assert {image.racks[one] for one in replicas} == {"a", "b"}
    assert place(image, 1, 1, [[3, 0, 1]]) == ((3, 0, 1),)
    with pytest.raises(KafkaError, match="INVALID_REPLICA_ASSIGNMENT"):
        place(image, 2, 1, [[3, 0], [1]])


@pytest.mark.parametrize(
    ("told", "log_epoch", "intact", "epoch"),
    [
        (0, -1, True, 0),  # a new partition
        (0, -1, False, 1),  # its log is gone: what was read in epoch 0 is too
        (3, 3, True, 3),  # a clean stop
        (3, 3, False, 4),  # a crash
        (4, 3, True, 4),  # told, and never written in
        (4, 3, False, 5),
        (2, 3, True, 4),  # the cluster's truth is an old copy
    ],
)
def test_when_a_leader_epoch_rises(told: int, log_epoch: int, intact: bool, epoch: int) -> None:
    assert next_epoch(told, log_epoch, intact=intact) == epoch


@pytest.mark.parametrize(
    ("assignment", "name"),
    [
        ([[0, 1]], "INVALID_REPLICATION_FACTOR"),
        ([[7]], "INVALID_REPLICA_ASSIGNMENT"),
        ([[]], "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_impossible_assignments_are_refused(assignment: list[list[int]], name: str) -> None:
    with pytest.raises(KafkaError, match=name):
        place(cluster({0: 0, 1: 0}), 1, 1, assignment)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\0", "a\n"])
def test_topic_names_that_cannot_be_folders_are_refused(name: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        check_name(name)


def test_good_names_and_numbers_pass() -> None:
    check_name("Orders_2.eu-west")
    check_name("x" * 249)
    check_partitions(1)
    for count in (0, -1, -5, 10_001):
        with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
            check_partitions(count)


def test_topic_configs_stand_over_the_brokers() -> None:
    broker = BrokerSettings(log_segment_bytes=5000, log_retention_ms=70)
    config = log_config(broker, {"retention.ms": "-1", "flush.messages": "3"})
    assert config.segment_bytes == 5000
    assert config.retention_ms == -1
    assert config.flush_messages == 3
    assert log_config(broker, {}).retention_ms == 70
    compacted = log_config(broker, {"cleanup.policy": "compact", "retention.ms": "5"})
    assert compacted.retention_ms == -1, "without compaction the last value of a key must stay"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.sm", "1"),
        ("retention.ms", "soon"),
        ("segment.bytes", "1"),
        ("cleanup.policy", "x"),
    ],
)
def test_wrong_topic_configs_are_named(name: str, value: str) -> None:
    with pytest.raises(KafkaError, match=name) as raised:
        log_config(BrokerSettings(), {name: value})
    assert raised.value.name == "INVALID_CONFIG"
    assert all(rule for rule in RULES)


def test_a_strange_stored_config_does_not_hurt() -> None:
    stored = {"retention.ms": "5", "message.format.version": "3.0", "segment.ms": "x"}
    assert understood(stored) == {"retention.ms": "5"}


def test_old_formats_and_transactions_are_refused() -> None:
    batch = bytearray(61)
    batch[16] = 1
    with pytest.raises(KafkaError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
        check_producible(batch, "t-0")
    batch[16], batch[22] = 2, 0x10
    with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
        check_producible(batch, "t-0")
    check_producible(b"", "t-0")  # too short to say: the log refuses it
