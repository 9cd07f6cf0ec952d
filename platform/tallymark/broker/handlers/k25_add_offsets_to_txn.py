"""k25 AddOffsetsToTxn: the offsets of a group join a transaction.

Served 0-4.

* v2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588); v3 flexible; v4 (KIP-890)

Kept: it needs WRITE on the transactional id and READ on the group. What joins is the partition of
``__consumer_offsets`` that has the group; its leader writes the marker. The answer leaves when that
is committed.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.coordinators.settled import when
from tallymark.broker.requests.concurrent_transactions import asked_again
from tallymark.broker.requests.create_topic import auto_create
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.transaction_coordinator import (
    authorized_shard,
    error_of,
    fenced_as_of,
)
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.coordinator_partition import coordinator_partition
from tallymark.protocol.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TopicPartition
from tallymark.transactions.inputs import Add

_FIRST_WITH_FENCED: Final = 2


async def handle(
    state: BrokerState, request: AddOffsetsToTxnRequest, call: Call
) -> AddOffsetsToTxnResponse:
    """Add the group's partition."""
    who, group = call.connection, request.group_id
    try:
        shard = authorized_shard(state, who, Operation.WRITE, request.transactional_id)
        require(state.authorizer, who, Operation.READ, ResourceType.GROUP, group)
        partition = await _partition_of(state, group)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=error.code)
    add = Add(request.producer_id, request.producer_epoch, frozenset((partition,)))
    name = request.transactional_id
    found = await asked_again(lambda: when(shard.add(name, add)), error_of)
    return AddOffsetsToTxnResponse(
        error_code=fenced_as_of(found.error, call.version, _FIRST_WITH_FENCED)
    )


async def _partition_of(state: BrokerState, group: str) -> TopicPartition:
    if not group:
        raise KafkaError(CODES["INVALID_GROUP_ID"], "an empty group")
    topic = state.image.topics.get(OFFSETS_TOPIC) or await auto_create(state, OFFSETS_TOPIC)
    return OFFSETS_TOPIC, coordinator_partition(group, len(topic.partitions))


register(AddOffsetsToTxnRequest, handle)
