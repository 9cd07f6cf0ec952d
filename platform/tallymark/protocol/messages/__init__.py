"""Every message class, one module per API named by its key."""

from __future__ import annotations

from typing import Any, Final

from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages.k00_produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tallymark.protocol.messages.k01_fetch import (
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponseLeader,
    FetchResponseNode,
    FetchResponsePartition,
    FetchResponseSnapshot,
    FetchResponseTopic,
)
from tallymark.protocol.messages.k02_list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tallymark.protocol.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tallymark.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tallymark.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tallymark.protocol.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from tallymark.protocol.messages.k18_api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseKey,
    ApiVersionsResponseSupportedFeature,
)
from tallymark.protocol.messages.k19_create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
)
from tallymark.protocol.messages.k20_delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from tallymark.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tallymark.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from tallymark.protocol.schema import Message, Request

_PAIRS: Final[tuple[tuple[type[Request[Any]], type[Message]], ...]] = (
    (ProduceRequest, ProduceResponse),
    (FetchRequest, FetchResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (MetadataRequest, MetadataResponse),
    (OffsetCommitRequest, OffsetCommitResponse),
    (OffsetFetchRequest, OffsetFetchResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
)

REQUEST_CLASSES: Final[dict[int, type[Request[Any]]]] = {
    int(request.api_key): request for request, _ in _PAIRS
}
"""API key -> class of its request."""

RESPONSE_OF: Final[dict[type[Request[Any]], type[Message]]] = dict(_PAIRS)
"""Class of a request -> class of its response."""

__all__ = [
    "REQUEST_CLASSES",
    "RESPONSE_OF",
    "ApiKey",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ApiVersionsResponseFinalizedFeature",
    "ApiVersionsResponseKey",
    "ApiVersionsResponseSupportedFeature",
    "CreateTopicsRequest",
    "CreateTopicsRequestAssignment",
    "CreateTopicsRequestConfig",
    "CreateTopicsRequestTopic",
    "CreateTopicsResponse",
    "CreateTopicsResponseConfig",
    "CreateTopicsResponseTopic",
    "DeleteTopicsRequest",
    "DeleteTopicsRequestTopic",
    "DeleteTopicsResponse",
    "DeleteTopicsResponseTopic",
    "FetchRequest",
    "FetchRequestForgottenTopic",
    "FetchRequestPartition",
    "FetchRequestReplicaState",
    "FetchRequestTopic",
    "FetchResponse",
    "FetchResponseAbortedTransaction",
    "FetchResponseEpochEndOffset",
    "FetchResponseLeader",
    "FetchResponseNode",
    "FetchResponsePartition",
    "FetchResponseSnapshot",
    "FetchResponseTopic",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "FindCoordinatorResponseCoordinator",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListOffsetsRequest",
    "ListOffsetsRequestPartition",
    "ListOffsetsRequestTopic",
    "ListOffsetsResponse",
    "ListOffsetsResponsePartition",
    "ListOffsetsResponseTopic",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponseTopic",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochRequestPartition",
    "OffsetForLeaderEpochRequestTopic",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderEpochResponsePartition",
    "OffsetForLeaderEpochResponseTopic",
    "ProduceRequest",
    "ProduceRequestPartition",
    "ProduceRequestTopic",
    "ProduceResponse",
    "ProduceResponseLeader",
    "ProduceResponseNode",
    "ProduceResponsePartition",
    "ProduceResponseRecordError",
    "ProduceResponseTopic",
]
