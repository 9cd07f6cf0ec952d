"""Every message class, one module per API named by its key.

A module is loaded when one of its classes is first asked for: ``tallymark topics list`` needs three
of them, and all take 0.1 s of processor time. The imports below are what type checkers read; at
run time :func:`__getattr__` finds the module by the name of the class.
"""
# What is imported here is meant to be imported from here.
# ruff: noqa: F401
# mypy: implicit-reexport
# pyright: reportUnusedImport=false

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, get_args

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Message, Request

if TYPE_CHECKING:
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
    from tallymark.protocol.messages.k24_add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnRequestTopic,
        AddPartitionsToTxnRequestTransaction,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnResponsePartition,
        AddPartitionsToTxnResponseTopic,
        AddPartitionsToTxnResponseTransaction,
    )
    from tallymark.protocol.messages.k25_add_offsets_to_txn import (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
    )
    from tallymark.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
    from tallymark.protocol.messages.k27_write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersRequestMarker,
        WriteTxnMarkersRequestTopic,
        WriteTxnMarkersResponse,
        WriteTxnMarkersResponseMarker,
        WriteTxnMarkersResponsePartition,
        WriteTxnMarkersResponseTopic,
    )
    from tallymark.protocol.messages.k28_txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestPartition,
        TxnOffsetCommitRequestTopic,
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
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
    from tallymark.protocol.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsRequestPartition,
        AlterPartitionReassignmentsRequestTopic,
        AlterPartitionReassignmentsResponse,
        AlterPartitionReassignmentsResponsePartition,
        AlterPartitionReassignmentsResponseTopic,
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
    from tallymark.protocol.messages.k65_describe_transactions import (
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        DescribeTransactionsResponseTopic,
        DescribeTransactionsResponseTransactionState,
    )
    from tallymark.protocol.messages.k66_list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
        ListTransactionsResponseTransactionState,
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

REQUEST_CLASSES: dict[int, type[Request[Any]]]
"""API key -> class of its request. Asking for it loads every module."""

RESPONSE_OF: dict[type[Request[Any]], type[Message]]
"""Class of a request -> class of its response. Asking for it loads every module."""

_answers: Final[dict[type[Request[Any]], type[Message]]] = {}


@cache
def request_class(key: ApiKey) -> type[Request[Any]] | None:
    """The class of an API's requests; None: there is none here."""
    home = _module(key)
    try:
        found: type[Request[Any]] = getattr(home, f"{_camel(key)}Request")
    except AttributeError:
        return None
    return found


def response_class(request: type[Request[Any]]) -> type[Message]:
    """The class of what answers a ``request``."""
    found = _answers.get(request)
    if found is None:
        (base,) = request.__dict__["__orig_bases__"]  # Request[MetadataResponse]
        _answers[request] = found = get_args(base)[0]
    return found


@cache
def _module(key: ApiKey) -> object:
    name = f"{__name__}.k{key:02}_{key.name.lower()}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


def _camel(key: ApiKey) -> str:
    return key.name.title().replace("_", "")


if not TYPE_CHECKING:  # with it type checkers would believe in every name

    def __getattr__(name: str) -> Any:
        """The class of that name, from the module of its API: FetchResponseNode is in k01_fetch."""
        value: Any = None
        if name == "REQUEST_CLASSES":
            value = {int(key): found for key in ApiKey if (found := request_class(key))}
        elif name == "RESPONSE_OF":
            classes = filter(None, map(request_class, ApiKey))
            value = {request: response_class(request) for request in classes}
        elif keys := [key for key in ApiKey if name.startswith(_camel(key))]:
            value = getattr(_module(max(keys, key=lambda key: len(key.name))), name, None)
        if value is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value  # found at once from now on
        return value
