"""A scripted broker that coordinates transactions: what a test scripts for their requests happens.

::

    with ScriptedCoordinator(level=2) as broker:
        broker.script(ApiKey.END_TXN, HangUp(after_append=True))   # decided, and not answered

It keeps one epoch and what was decided, and checks nothing: what a coordinator refuses is scripted.
"""

from __future__ import annotations

from typing import Any

from tallymark.net.addresses import parse_address
from tallymark.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    ApiVersionsResponse,
    ApiVersionsResponseFinalizedFeature,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tallymark.protocol.schema import Message
from tallymark.testing.scripted_broker import ScriptedBroker

_PRODUCER_ID = 7


class ScriptedCoordinator(ScriptedBroker):
    """See the module. ``level`` is that of ``transaction.version``. ``epoch`` is the producer's;
    ``decided`` has the epoch and outcome of every EndTxn that was done."""

    def __init__(self, level: int) -> None:
        super().__init__({"t": 1})
        self.level = level
        self.epoch = -1
        self.decided: list[tuple[int, bool]] = []

    def api_versions(self) -> ApiVersionsResponse:
        feature = ApiVersionsResponseFinalizedFeature(
            name="transaction.version", max_version_level=self.level, min_version_level=self.level
        )
        keys = super().api_versions().api_keys
        return ApiVersionsResponse(api_keys=keys, finalized_features=(feature,))

    def answer(self, request: Any, version: int, appends: bool, refused: int) -> Message:
        match request:
            case FindCoordinatorRequest():
                return self._found(request, refused)
            case InitProducerIdRequest() if request.transactional_id is not None:
                self.epoch += appends
                return InitProducerIdResponse(
                    error_code=refused, producer_id=_PRODUCER_ID, producer_epoch=self.epoch
                )
            case AddPartitionsToTxnRequest():
                return _added(request, refused)
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(error_code=refused)
            case TxnOffsetCommitRequest():
                return _offsets_taken(request, refused)
            case EndTxnRequest():
                return self._ended(request, version, appends, refused)
            case _:
                return super().answer(request, version, appends, refused)

    def _found(self, request: FindCoordinatorRequest, refused: int) -> FindCoordinatorResponse:
        at = parse_address(self.address)
        one = FindCoordinatorResponseCoordinator(
            key=(request.coordinator_keys or (request.key,))[0],
            host=at.host,
            port=at.port,
            error_code=refused,
        )
        return FindCoordinatorResponse(
            host=at.host, port=at.port, error_code=refused, coordinators=(one,)
        )

    def _ended(
        self, request: EndTxnRequest, version: int, appends: bool, refused: int
    ) -> EndTxnResponse:
        raises = version >= 5
        if appends and (request.producer_epoch == self.epoch or not raises):
            self.decided.append((request.producer_epoch, request.committed))
            self.epoch += raises
        return EndTxnResponse(
            error_code=refused, producer_id=_PRODUCER_ID, producer_epoch=self.epoch
        )


def _added(request: AddPartitionsToTxnRequest, refused: int) -> AddPartitionsToTxnResponse:
    topics = [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(
                    partition_index=number, partition_error_code=refused
                )
                for number in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def _offsets_taken(request: TxnOffsetCommitRequest, refused: int) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=part.partition_index, error_code=refused
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)
