"""The coordinator of a group: the leader of its partition of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallymark.broker.groups.shard import GroupShard
from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.requests.coordinator_lookup import coordinator_in
from tallymark.broker.security.authorizer import Who, require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import Commit
from tallymark.groups.records import LONGEST_TEXT
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic
from tallymark.protocol.topic_partition import OFFSETS_TOPIC


async def coordinator_of(state: BrokerState, group: str) -> BrokerImage:
    """The group's coordinator; the first call of a cluster creates ``__consumer_offsets``.

    Raises COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID.
    """
    _check_name(group)
    return await coordinator_in(state, OFFSETS_TOPIC, group)


def authorized_shard(state: BrokerState, who: Who, operation: Operation, group: str) -> GroupShard:
    """The shard of a group, for a client that may do ``operation`` to it.

    Raises GROUP_AUTHORIZATION_FAILED, and as :func:`shard_of`.
    """
    require(state.authorizer, who, operation, ResourceType.GROUP, group)
    return shard_of(state, group)


def shard_of(state: BrokerState, group: str) -> GroupShard:
    """The shard of a group, if this broker is its coordinator.

    Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_GROUP_ID.
    """
    _check_name(group)
    topic = state.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(
            CODES["NOT_COORDINATOR"], f"group {group}: no FindCoordinator has named it yet"
        )
    return state.group_shards.of(group, len(topic.partitions))


def commits_of(
    state: BrokerState,
    who: Who,
    topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
) -> Iterator[Commit]:
    """What a client asks to commit, each with the error that it has already: a topic that the
    client may not READ, a partition that does not exist."""
    for topic in topics:
        known = state.image.topics.get(topic.name)
        count = len(known.partitions) if known else 0
        allowed = state.authorizer.may(who, Operation.READ, ResourceType.TOPIC, topic.name)
        for part in topic.partitions:
            there = 0 <= part.partition_index < count
            error = 0 if there else CODES["UNKNOWN_TOPIC_OR_PARTITION"]
            yield Commit(
                topic.name,
                part.partition_index,
                part.committed_offset,
                part.committed_leader_epoch,
                part.committed_metadata or "",
                error=error if allowed else CODES["TOPIC_AUTHORIZATION_FAILED"],
            )


def _check_name(group: str) -> None:
    # Kafka allows commits without a group id (an empty one) only in its oldest protocol.
    if not group or len(group.encode()) > LONGEST_TEXT:
        raise KafkaError(CODES["INVALID_GROUP_ID"], f"{group[:40]!r}")
