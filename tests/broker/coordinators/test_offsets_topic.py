"""``__consumer_offsets``: how many replicas it gets, and that it never gets fewer in silence."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.requests.create_topic import auto_create
from tallymark.broker.requests.group_coordinator import coordinator_of
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.replication.features import REPLICATION, Finalized


class Creates:
    """A cluster that creates what it is asked for, in the image of ``state``."""

    def __init__(self) -> None:
        self.state: BrokerState
        self.asked: list[Sequence[Sequence[int]] | None] = []

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
        factor: int = 1,
    ) -> None:
        self.asked.append(assignment)
        placed = assignment or [(1,)] * partitions
        parts = tuple(PartitionImage.of(r[0], 0, tuple(r), tuple(r)) for r in placed)
        topic = TopicImage(name, uuid.uuid4(), parts, dict(configs))
        self.state.partitions.image = self.state.image.with_topic(topic)


def state_of(brokers: int, level: int, racks: Sequence[str] = (), **settings: Any) -> BrokerState:
    cluster = Creates()
    partitions = Partitions()
    live = {
        node: BrokerImage(node, {}, rack)
        for node, rack in zip(range(1, brokers + 1), [*racks, *[""] * brokers], strict=False)
    }
    partitions.image = MetadataImage("c", 1, live, {}, features=Finalized({REPLICATION: level}))
    made, nothing = BrokerSettings(**settings), cast(Any, None)
    shards = GroupShards(made, lambda: 0)
    cluster.state = BrokerState(
        made, partitions, cast(Any, cluster), shards, lambda: 0, nothing, nothing
    )
    return cluster.state


def placed(state: BrokerState) -> list[Sequence[Sequence[int]] | None]:
    cluster = cast(Any, state.cluster)
    assert isinstance(cluster, Creates)
    return cluster.asked


def test_it_has_three_replicas_where_replication_is_in_use() -> None:
    state = state_of(4, 1, offsets_topic_num_partitions=6)
    topic = asyncio.run(auto_create(state, OFFSETS_TOPIC))
    assert len(topic.partitions) == 6
    assert {len(set(part.replicas)) for part in topic.partitions} == {3}
    assert {part.leader for part in topic.partitions} == {1, 2, 3, 4}
    assert topic.configs["cleanup.policy"] == "compact"


def test_its_replicas_are_in_different_racks() -> None:
    state = state_of(4, 1, "aabb", offsets_topic_replication_factor=2)
    (part,) = asyncio.run(auto_create(state, OFFSETS_TOPIC)).partitions
    assert len({state.image.brokers[node].rack for node in part.replicas}) == 2


@pytest.mark.parametrize(("brokers", "factor"), [(1, 3), (2, 3), (3, 4)])
def test_with_too_few_brokers_it_is_not_created(
    brokers: int, factor: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic keeps its number of replicas: one that was made while brokers were still starting had
    all commits of the cluster on one disk."""
    state = state_of(brokers, 1, offsets_topic_replication_factor=factor)
    for _ in range(3):
        with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE") as refused:
            asyncio.run(coordinator_of(state, "g"))
        assert f"{factor} replicas (offsets.topic.replication.factor), {brokers} brokers" in str(
            refused.value
        )
    assert placed(state) == []
    assert len([r for r in caplog.records if "not created" in r.getMessage()]) == 1
    state.partitions.image = replace(
        state.image, brokers={node: BrokerImage(node, {}) for node in range(factor)}
    )
    asyncio.run(auto_create(state, OFFSETS_TOPIC))
    assert state.image.topics[OFFSETS_TOPIC].partitions[0].replicas == tuple(range(factor))


@pytest.mark.parametrize(("level", "factor"), [(0, 3), (0, 1), (1, 1)])
def test_one_replica_is_placed_by_the_cluster_as_ever(level: int, factor: int) -> None:
    state = state_of(1, level, offsets_topic_replication_factor=factor)
    asyncio.run(auto_create(state, OFFSETS_TOPIC))
    assert placed(state) == [None]


def test_other_topics_are_not_its_concern() -> None:
    state = state_of(1, 1)
    assert len(asyncio.run(auto_create(state, "orders")).partitions) == 1
    assert placed(state) == [None]
