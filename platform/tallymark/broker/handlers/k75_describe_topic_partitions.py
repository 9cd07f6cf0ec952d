"""k75 DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

Served 0.

Kept: no topics mean all that the client may DESCRIBE. Topics are in order of names, at most 2,000
partitions a page; the cursor is the start of the next page. Topics that are requested by name and
fail are on the last page. With one replica a partition has no other one that could lead it
(``eligible_leader_replicas`` is empty). Nothing is created.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.requests.partition_facts import partition_facts
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import operations_bits
from tallymark.broker.settings.topic_configs import check_name
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID

MOST_PARTITIONS: Final = 2000
"""Most partitions of one page, whatever the request's limit (Kafka's
``max.request.partition.size.limit``)."""


async def handle(
    state: BrokerState, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    """One page."""
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        code = CODES["INVALID_REQUEST"]
        return DescribeTopicPartitionsResponse(topics=[_refused(n, code) for n in sorted(asked)])
    begin = cursor.topic_name if cursor is not None else ""
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    wanted: list[TopicImage] = []
    async for name in in_turns(sorted(asked or state.image.topics)):
        if name < begin:
            continue
        code = _refusal(state, call, name, quiet=not asked)
        if not code:
            wanted.append(state.image.topics[name])
        elif asked:
            refused.append(_refused(name, code))
    first = cursor.partition_index if cursor is not None else 0
    places = [(topic, first if topic.name == begin else 0) for topic in wanted]
    limit = max(1, min(request.response_partition_limit, MOST_PARTITIONS))
    topics, following = await _page(state, call, places, limit)
    return DescribeTopicPartitionsResponse(
        topics=topics if following else [*topics, *refused], next_cursor=following
    )


async def _page(
    state: BrokerState, call: Call, places: Iterable[tuple[TopicImage, int]], limit: int
) -> tuple[list[DescribeTopicPartitionsResponseTopic], DescribeTopicPartitionsCursor | None]:
    """One page: topics, each from its first partition on, with at most ``limit`` partitions; and
    the cursor to the rest."""
    page: list[DescribeTopicPartitionsResponseTopic] = []
    left = limit
    async for topic, first in in_turns(places):
        if not left:
            return page, DescribeTopicPartitionsCursor(topic.name, first)
        end = min(len(topic.partitions), first + left)
        page.append(_described(state, call, topic, range(first, end)))
        left -= max(0, end - first)
        if end < len(topic.partitions):
            return page, DescribeTopicPartitionsCursor(topic.name, end)
    return page, None


def _refusal(state: BrokerState, call: Call, name: str, *, quiet: bool) -> int:
    """The error code by which the topic is not described; 0 if it is."""
    kind = ResourceType.TOPIC
    if not state.authorizer.may(call.connection, Operation.DESCRIBE, kind, name, quiet=quiet):
        return CODES["TOPIC_AUTHORIZATION_FAILED"]
    if name in state.image.topics:
        return 0
    try:
        check_name(name)
    except KafkaError as error:
        return error.code
    return CODES["UNKNOWN_TOPIC_OR_PARTITION"]


def _refused(name: str, code: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID)


def _described(
    state: BrokerState, call: Call, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    listener = call.connection.listener
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(state, listener, topic, index) for index in indexes],
        topic_authorized_operations=operations_bits(
            state.authorizer, call.connection, ResourceType.TOPIC, topic.name
        ),
    )


def _partition(
    state: BrokerState, listener: str, topic: TopicImage, index: int
) -> DescribeTopicPartitionsResponsePartition:
    facts = partition_facts(state, listener, topic.name, index, topic.partitions[index])
    return DescribeTopicPartitionsResponsePartition(
        error_code=facts.error,
        partition_index=index,
        leader_id=facts.leader,
        leader_epoch=facts.leader_epoch,
        replica_nodes=facts.replicas,
        isr_nodes=facts.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=facts.offline_replicas,
    )


register(DescribeTopicPartitionsRequest, handle)
