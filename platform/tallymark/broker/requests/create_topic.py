"""Creating topics with the broker's defaults and rules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tallymark.broker.metadata.assignment import check_assignment
from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.metadata.topic_names import check_collision
from tallymark.broker.settings.topic_configs import check_name, check_partitions, log_config
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC

log = logging.getLogger(__name__)

_OFFSETS_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 1024 * 1024),
}


async def create_topic(
    state: BrokerState,
    name: str,
    partitions: int,
    configs: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None = None,
) -> TopicImage:
    """Check and create a topic, and return its image. ``partitions`` -1: the broker's default.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, TOPIC_ALREADY_EXISTS,
    COORDINATOR_NOT_AVAILABLE without ZooKeeper.
    """
    count = check_topic(state, name, partitions, configs, assignment)
    await state.cluster.create_topic(name, count, configs, assignment)
    topic = state.image.topics.get(name)
    if topic is None:  # deleted again meanwhile
        raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name)
    return topic


def check_topic(
    state: BrokerState,
    name: str,
    partitions: int,
    configs: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None = None,
) -> int:
    """The number of partitions that the topic would have; raises as :func:`create_topic`."""
    check_name(name)
    if name in state.image.topics:
        raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], name)
    check_collision(name, state.image)
    count = state.settings.num_partitions if partitions == -1 else partitions
    count = count if assignment is None else len(assignment)
    check_partitions(count)
    if assignment is not None:
        check_assignment(assignment, state.image.load())
    log_config(state.settings, configs)
    return count


def check_not_own(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an internal topic, which only brokers create."""
    if name == OFFSETS_TOPIC:
        raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{name} is the brokers' own")


async def auto_create(state: BrokerState, name: str) -> TopicImage:
    """Create an unknown topic that a client requested. It is no error if another client has just
    created it."""
    partitions, configs = -1, dict[str, str]()
    if name == OFFSETS_TOPIC:
        partitions, configs = state.settings.offsets_topic_num_partitions, _OFFSETS_CONFIGS
    try:
        return await create_topic(state, name, partitions, configs)
    except KafkaError as error:
        topic = state.image.topics.get(name)
        if error.code != CODES["TOPIC_ALREADY_EXISTS"] or topic is None:
            raise
        return topic
