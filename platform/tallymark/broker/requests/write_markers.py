"""Writes the ends of transactions into partitions that this broker leads, for their coordinator.

A partition's answer leaves when its marker is committed, and for ``__consumer_offsets`` when what
it decides is in force in the memory of the groups: an answer before that made offsets invisible
that had been committed (KAFKA-17507).
"""

from __future__ import annotations

import asyncio
from typing import Final

from tallymark.broker.coordinators.settled import Settled, when
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from tallymark.protocol.records.markers import Marker
from tallymark.protocol.topic_partition import OFFSETS_TOPIC

COMMIT_MS: Final = 10_000
"""How long a marker may take to be committed; the coordinator sends it again after an error."""
_MARKERS_A_TURN: Final = 20


async def write_markers(
    state: BrokerState, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append all, then wait for each."""
    begun = [
        (
            marker.producer_id,
            [
                (
                    topic.name,
                    [
                        (index, _write(state, marker, topic.name, index))
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        async for marker in in_turns(request.markers, _MARKERS_A_TURN)
    ]
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponseMarker(
                producer_id,
                [
                    WriteTxnMarkersResponseTopic(
                        topic,
                        [
                            WriteTxnMarkersResponsePartition(index, await when(code))
                            for index, code in parts
                        ],
                    )
                    for topic, parts in topics
                ],
            )
            for producer_id, topics in begun
        ]
    )


def uniform_answer(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    """The answer with one error code for every partition."""
    return WriteTxnMarkersResponse(
        [
            WriteTxnMarkersResponseMarker(
                marker.producer_id,
                [
                    WriteTxnMarkersResponseTopic(
                        topic.name,
                        [
                            WriteTxnMarkersResponsePartition(index, code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _write(
    state: BrokerState, asked: WriteTxnMarkersRequestMarker, topic: str, index: int
) -> Settled[int]:
    """The error code of one partition, when it is known."""
    marker = Marker(asked.transaction_result, asked.coordinator_epoch)
    producer_id, epoch = asked.producer_id, asked.producer_epoch
    version = asked.transaction_version
    try:
        partition = state.partitions.find(topic, index)
        if topic == OFFSETS_TOPIC:
            shard = state.group_shards.at(index)
            return shard.end_transaction(producer_id, epoch, marker, version)
        offset = partition.append_marker(producer_id, epoch, marker, state.now_ms(), version)
        code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def exposed(error: KafkaError | None) -> None:
            if not code.done():
                code.set_result(0 if error is None else error.code)

        waits = partition.when_exposed(offset, exposed, COMMIT_MS)
    except KafkaError as error:
        return _for_coordinator(error.code)
    return 0 if waits is None else code


def _for_coordinator(code: int) -> int:
    """Another broker leads, or the groups are still being loaded: it looks the leader up again."""
    if code == CODES["NOT_COORDINATOR"]:
        return CODES["NOT_LEADER_OR_FOLLOWER"]
    return code
