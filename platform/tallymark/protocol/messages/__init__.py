"""Every message class, one module per API named by its key."""
# What is imported here is meant to be imported from here.
# ruff: noqa: F401
# mypy: implicit-reexport
# pyright: reportUnusedImport=false

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
from tallymark.protocol.messages.k11_join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from tallymark.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from tallymark.protocol.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)
from tallymark.protocol.messages.k14_sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tallymark.protocol.messages.k15_describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)
from tallymark.protocol.messages.k16_list_groups import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)
from tallymark.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
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
from tallymark.protocol.messages.k21_delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
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
from tallymark.protocol.messages.k29_describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)
from tallymark.protocol.messages.k30_create_acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    CreateAclsResponseResult,
)
from tallymark.protocol.messages.k31_delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
    DeleteAclsResponseFilterResult,
    DeleteAclsResponseMatchingAcl,
)
from tallymark.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)
from tallymark.protocol.messages.k33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)
from tallymark.protocol.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestDir,
    AlterReplicaLogDirsRequestTopic,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from tallymark.protocol.messages.k35_describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)
from tallymark.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tallymark.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseResult,
)
from tallymark.protocol.messages.k42_delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
)
from tallymark.protocol.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from tallymark.protocol.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)
from tallymark.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequestTopic,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponsePartition,
    ListPartitionReassignmentsResponseTopic,
)
from tallymark.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tallymark.protocol.messages.k48_describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)
from tallymark.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)
from tallymark.protocol.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseResult,
)
from tallymark.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from tallymark.protocol.messages.k57_update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseResult,
)
from tallymark.protocol.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)
from tallymark.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducer,
    DescribeProducersResponseTopic,
)
from tallymark.protocol.messages.k74_list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)
from tallymark.protocol.messages.k75_describe_topic_partitions import (
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
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
    (JoinGroupRequest, JoinGroupResponse),
    (HeartbeatRequest, HeartbeatResponse),
    (LeaveGroupRequest, LeaveGroupResponse),
    (SyncGroupRequest, SyncGroupResponse),
    (DescribeGroupsRequest, DescribeGroupsResponse),
    (ListGroupsRequest, ListGroupsResponse),
    (SaslHandshakeRequest, SaslHandshakeResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (DeleteRecordsRequest, DeleteRecordsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    (DescribeAclsRequest, DescribeAclsResponse),
    (CreateAclsRequest, CreateAclsResponse),
    (DeleteAclsRequest, DeleteAclsResponse),
    (DescribeConfigsRequest, DescribeConfigsResponse),
    (AlterConfigsRequest, AlterConfigsResponse),
    (AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
    (SaslAuthenticateRequest, SaslAuthenticateResponse),
    (CreatePartitionsRequest, CreatePartitionsResponse),
    (DeleteGroupsRequest, DeleteGroupsResponse),
    (ElectLeadersRequest, ElectLeadersResponse),
    (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    (OffsetDeleteRequest, OffsetDeleteResponse),
    (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    (AlterClientQuotasRequest, AlterClientQuotasResponse),
    (DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    (AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    (UpdateFeaturesRequest, UpdateFeaturesResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (ListConfigResourcesRequest, ListConfigResourcesResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)

REQUEST_CLASSES: Final[dict[int, type[Request[Any]]]] = {
    int(request.api_key): request for request, _ in _PAIRS
}
"""API key -> class of its request."""

RESPONSE_OF: Final[dict[type[Request[Any]], type[Message]]] = dict(_PAIRS)
"""Class of a request -> class of its response."""
