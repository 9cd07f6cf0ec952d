"""k24 AddPartitionsToTxn: partitions join a transaction, or their leader asks whether they have.

Served 0-5.

* v0 to v3 are a producer's; v2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; v3 flexible
* v4, v5 are for brokers: many transactions, each to be verified or added to (KIP-890)

Kept: a producer needs WRITE on the id and on every topic; brokers need CLUSTER_ACTION. All
partitions are added, or none: the others are OPERATION_NOT_ATTEMPTED. The answer leaves when what
it tells is committed; while the transaction before is ending, the request waits for a moment.
Partitions of the brokers' own topics join with AddOffsetsToTxn only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from tallymark.broker.coordinators.settled import when
from tallymark.broker.requests.cluster_action import require_cluster_action
from tallymark.broker.requests.concurrent_transactions import asked_again
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.transaction_coordinator import (
    authorized_shard,
    error_of,
    fenced_as_of,
    in_transaction,
    is_known,
)
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)
from tallymark.protocol.topic_partition import STATE_TOPICS, TopicPartition
from tallymark.transactions.inputs import Add

_FIRST_OF_BROKERS: Final = 4
_FIRST_WITH_FENCED: Final = 2


async def handle(
    state: BrokerState, request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse:
    """Each transaction by itself."""
    if call.version < _FIRST_OF_BROKERS:
        codes = await _of_producer(state, request, call)
        topics = _topics(request.v3_and_below_topics, codes)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    try:
        require_cluster_action(state, call.connection)
    except KafkaError as error:
        return AddPartitionsToTxnResponse(error_code=error.code)
    each = await asyncio.gather(*(_of_broker(state, one) for one in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponseTransaction(
                transactional_id=one.transactional_id, topic_results=_topics(one.topics, codes)
            )
            for one, codes in zip(request.transactions, each, strict=True)
        ]
    )


async def _of_producer(
    state: BrokerState, request: AddPartitionsToTxnRequest, call: Call
) -> Mapping[TopicPartition, int]:
    asked = _partitions(request.v3_and_below_topics)
    transactional_id = request.v3_and_below_transactional_id
    try:
        shard = authorized_shard(state, call.connection, Operation.WRITE, transactional_id)
    except KafkaError as error:
        return dict.fromkeys(asked, error.code)
    wrong = {each: code for each in asked if (code := _refusal(state, each, call))}
    if wrong:
        return dict.fromkeys(asked, CODES["OPERATION_NOT_ATTEMPTED"]) | wrong
    add = Add(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch, asked)
    found = await asked_again(lambda: when(shard.add(transactional_id, add)), error_of)
    return dict.fromkeys(asked, fenced_as_of(found.error, call.version, _FIRST_WITH_FENCED))


def _refusal(state: BrokerState, partition: TopicPartition, call: Call) -> int:
    topic, _ = partition
    may = state.authorizer.may(call.connection, Operation.WRITE, ResourceType.TOPIC, topic)
    if topic in STATE_TOPICS or not may:
        return CODES["TOPIC_AUTHORIZATION_FAILED"]
    return 0 if is_known(state, partition) else CODES["UNKNOWN_TOPIC_OR_PARTITION"]


async def _of_broker(
    state: BrokerState, one: AddPartitionsToTxnRequestTransaction
) -> Mapping[TopicPartition, int]:
    return await in_transaction(
        state,
        one.transactional_id,
        (one.producer_id, one.producer_epoch),
        _partitions(one.topics),
        verify_only=one.verify_only,
    )


def _partitions(topics: Iterable[AddPartitionsToTxnRequestTopic]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _topics(
    topics: Iterable[AddPartitionsToTxnRequestTopic], codes: Mapping[TopicPartition, int]
) -> list[AddPartitionsToTxnResponseTopic]:
    return [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


register(AddPartitionsToTxnRequest, handle)
