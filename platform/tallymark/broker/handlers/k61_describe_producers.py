"""k61 DescribeProducers: the producer ids that write to a partition (KIP-664).

Served 0.

Kept: id, epoch, last sequence and the time of the last batch of each, in the order of ids. An id
that was not used for ``producer.id.expiration.ms`` is forgotten, unless its transaction is open: of
that, the offset where it begins; and the epoch of the coordinator that ended the last one. A broker
that only follows answers for its own log, as in Kafka: ``kafka-transactions.sh find-hanging
--broker-id`` asks it for all replicas that it has.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.log.producers.state import ProducerEntry
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)


async def handle(
    state: BrokerState, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    """Each partition by itself. One that is named twice gets an error: otherwise a small request
    could cause a huge answer."""
    seen: set[tuple[str, int]] = set()
    answers: list[list[DescribeProducersResponsePartition]] = [[] for _ in request.topics]
    topics = [
        DescribeProducersResponseTopic(name=topic.name, partitions=partitions)
        for topic, partitions in zip(request.topics, answers, strict=True)
    ]
    places = (
        (partitions, topic.name, index)
        for topic, partitions in zip(request.topics, answers, strict=True)
        for index in topic.partition_indexes
    )
    async for partitions, name, index in in_turns(places):
        again = (name, index) in seen
        seen.add((name, index))
        partitions.append(_partition(state, call, name, index, again))
    return DescribeProducersResponse(topics=topics)


def _partition(
    state: BrokerState, call: Call, topic: str, index: int, again: bool
) -> DescribeProducersResponsePartition:
    try:
        if again:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{topic[:80]}-{index} is named twice")
        require(state.authorizer, call.connection, Operation.READ, ResourceType.TOPIC, topic)
        held = state.partitions.held(topic, index) or state.partitions.find(topic, index)
        producers = held.log.producers
    except KafkaError as error:
        return DescribeProducersResponsePartition(
            partition_index=index,
            error_code=error.code,
            error_message=str(error),
            active_producers=[],
        )
    entries = sorted(producers, key=lambda entry: entry.producer_id)
    return DescribeProducersResponsePartition(
        partition_index=index, active_producers=[_producer(entry) for entry in entries]
    )


def _producer(entry: ProducerEntry) -> DescribeProducersResponseProducer:
    return DescribeProducersResponseProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else -1,
        last_timestamp=entry.updated_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )


register(DescribeProducersRequest, handle)
