"""Which broker coordinates a key: the leader of its partition of a brokers' own topic."""

from __future__ import annotations

from tallymark.broker.metadata.image import BrokerImage, TopicImage
from tallymark.broker.requests.create_topic import auto_create
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.coordinator_partition import coordinator_partition


async def coordinator_in(state: BrokerState, name: str, key: str) -> BrokerImage:
    """The coordinator of a key whose state is in the topic ``name``; the first call of a cluster
    creates the topic. Raises COORDINATOR_NOT_AVAILABLE."""
    try:
        topic = state.image.topics.get(name) or await auto_create(state, name)
    except KafkaError as error:
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(error)) from error
    leader = _leader(state, topic, key)
    if leader < 0:
        index = coordinator_partition(key, len(topic.partitions))
        raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], f"{name}-{index}")
    return state.image.brokers[leader]


def coordinator_id(state: BrokerState, name: str, key: str) -> int:
    """The id of that broker; -1 where there is none now, or no topic yet."""
    topic = state.image.topics.get(name)
    return -1 if topic is None else _leader(state, topic, key)


def _leader(state: BrokerState, topic: TopicImage, key: str) -> int:
    index = coordinator_partition(key, len(topic.partitions))
    return state.image.leader_of(topic.partitions[index])
