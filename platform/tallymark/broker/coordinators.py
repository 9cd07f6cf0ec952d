"""Who looks after a group: the leader of its partition of ``__consumer_offsets``."""

from __future__ import annotations

from typing import Final

from tallymark.broker.image import BrokerImage
from tallymark.broker.partition import Partition
from tallymark.broker.state import BrokerState
from tallymark.broker.topics import auto_create
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.placement import OFFSETS_TOPIC, partition_of_group

_MOST_GROUP_BYTES: Final = 32_767
"""A group's name stands in record keys as a string with a 16-bit length."""


async def coordinator_of(state: BrokerState, group: str) -> BrokerImage:
    """The group's coordinator; the first call of a cluster creates ``__consumer_offsets``.

    Raises COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID.
    """
    _check_name(group)
    try:
        topic = state.image.topics.get(OFFSETS_TOPIC) or await auto_create(state, OFFSETS_TOPIC)
    except KafkaError as error:
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(error)) from error
    index = partition_of_group(group, len(topic.partitions))
    leader = state.image.leader_of(topic.partitions[index])
    if leader < 0:
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], f"{OFFSETS_TOPIC}-{index}")
    return state.image.brokers[leader]


def offsets_of(state: BrokerState, group: str) -> tuple[Partition, OffsetsState]:
    """What the group committed, if we are its coordinator.

    Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID.
    """
    _check_name(group)
    topic = state.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(CODES["NOT_COORDINATOR"], f"group {group}: nobody asked for it yet")
    return state.offsets.of(group, len(topic.partitions))


def _check_name(group: str) -> None:
    # Kafka lets consumers without a group id (the empty one) commit in its old protocol only.
    if not group or len(group.encode()) > _MOST_GROUP_BYTES:
        raise KafkaError(CODES["INVALID_GROUP_ID"], f"{group[:40]!r}")
