"""Creating topics with the broker's defaults and rules."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tallymark.broker.metadata.assignment import place
from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.metadata.topic_names import check_collision
from tallymark.broker.settings.topic_configs import check_name, check_partitions, log_config
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, STATE_TOPICS, TRANSACTIONS_TOPIC
from tallymark.replication.features import REPLICATION
from tallymark.replication.placement import spread

log = logging.getLogger(__name__)

CHANGED_AT_ONCE: Final = 50
"""Topics of one request. Each waits for an image of the cluster that has it; what is changed
meanwhile is in the same image, so a request of hundreds needs few of them."""
_STATE_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": str(100 * 1024 * 1024),
}
_FACTOR_OF: Final = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
}
"""The setting for the number of replicas."""


async def create_topic(
    state: BrokerState,
    name: str,
    partitions: int,
    configs: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None = None,
    factor: int = -1,
) -> TopicImage:
    """Check and create a topic, and return its image. ``partitions`` or ``factor`` (replicas of a
    partition) -1: the broker's default.

    Raises KafkaError: INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, TOPIC_ALREADY_EXISTS,
    COORDINATOR_NOT_AVAILABLE without ZooKeeper.
    """
    count, replicas = check_topic(state, name, partitions, configs, assignment, factor)
    return await _created(state, name, count, configs, assignment, replicas)


async def _created(
    state: BrokerState,
    name: str,
    count: int,
    configs: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None,
    factor: int = 1,
) -> TopicImage:
    await state.cluster.create_topic(name, count, configs, assignment, factor)
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
    factor: int = -1,
) -> tuple[int, int]:
    """The numbers of partitions and of replicas that the topic would have; raises as
    :func:`create_topic`."""
    check_name(name)
    if name in state.image.topics:
        raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], name)
    check_collision(name, state.image)
    count = state.settings.num_partitions if partitions == -1 else partitions
    count = count if assignment is None else len(assignment)
    check_partitions(count)
    replicas = state.settings.default_replication_factor if factor == -1 else factor
    if assignment is not None or replicas != 1:
        replicas = len(place(state.image, count, replicas, assignment)[0])
    log_config(state.settings, configs)
    return count, replicas


def check_not_own(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION for an internal topic, which only brokers create."""
    if name in STATE_TOPICS:
        raise KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{name} is the brokers' own")


async def auto_create(state: BrokerState, name: str) -> TopicImage:
    """Create an unknown topic that a client requested. It is no error if another client has just
    created it. Raises as :func:`create_topic`; COORDINATOR_NOT_AVAILABLE where ``name`` is the
    brokers' own and too few brokers live for its replicas."""
    try:
        if name == OFFSETS_TOPIC:
            return await _create_offsets_topic(state)
        if name == TRANSACTIONS_TOPIC:
            return await _create_transactions_topic(state)
        return await create_topic(state, name, -1, {})
    except KafkaError as error:
        topic = state.image.topics.get(name)
        if error.code != CODES["TOPIC_ALREADY_EXISTS"] or topic is None:
            raise
        return topic


async def _create_offsets_topic(state: BrokerState) -> TopicImage:
    settings = state.settings
    count, factor = settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor
    check_topic(state, OFFSETS_TOPIC, count, _STATE_CONFIGS, factor=1)
    replicas = _replicas_of_own(state, OFFSETS_TOPIC, count, factor)
    return await _created(state, OFFSETS_TOPIC, count, _STATE_CONFIGS, replicas)


async def _create_transactions_topic(state: BrokerState) -> TopicImage:
    settings = state.settings
    count = settings.transaction_state_log_num_partitions
    factor = settings.transaction_state_log_replication_factor
    check_topic(state, TRANSACTIONS_TOPIC, count, _STATE_CONFIGS, factor=1)
    replicas = _replicas_of_own(state, TRANSACTIONS_TOPIC, count, factor)
    least = min(settings.transaction_state_log_min_isr, 1 if replicas is None else factor)
    configs = {**_STATE_CONFIGS, "min.insync.replicas": str(least)}
    return await _created(state, TRANSACTIONS_TOPIC, count, configs, replicas)


def _replicas_of_own(
    state: BrokerState, name: str, count: int, factor: int
) -> Sequence[Sequence[int]] | None:
    """None: one replica each, where the cluster places it. Never fewer than the setting asks for: a
    topic keeps the number that it was created with, and commits would rest on one disk for ever."""
    image = state.image
    if factor == 1 or image.features.level(REPLICATION) == 0:
        return None
    if len(image.brokers) < factor:
        why = (
            f"{name} is to have {factor} replicas ({_FACTOR_OF[name]}), "
            f"{len(image.brokers)} brokers live"
        )
        missed = state.refusals.passes(name)
        if missed is not None:
            log.warning("topic not created: %s; requests=%d", why, missed + 1)
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], why)
    return spread(count, factor, image.load(), image.racks, image.unsteady)
