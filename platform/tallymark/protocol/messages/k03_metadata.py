"""Metadata (key 3): brokers, topics, partitions and their leaders.

* v0 reads an empty list of topics as all of them; from v1 null means all, empty means none
* v1 adds racks, the controller and internal topics, v2 the cluster id, v5 offline replicas
* v4 says whether unknown topics may be created, v7 adds leader epochs
* v8 to v10 may list what the asker is authorized to do with the cluster
* v9 is flexible, v10 adds topic ids, v12 asks by id, v13 adds a top-level error
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    Uuid,
    f,
    wire,
)

OPERATIONS_UNKNOWN = -(2**31)
"""Value of an authorized-operations field that was not asked for."""


@wire
class MetadataResponseBroker(Struct):
    """One broker of the cluster."""

    node_id: int = f(Int32, about="Broker id.")
    host: str = f(String, about="Host it advertises.")
    port: int = f(Int32, about="Port it advertises.")
    rack: str | None = f(String, since=1, nullable_since=1, default=None, about="Rack, or null.")


@wire
class MetadataResponsePartition(Struct):
    """One partition."""

    error_code: int = f(Int16, about="0, or what is wrong with the partition.")
    partition_index: int = f(Int32, about="Number of the partition.")
    leader_id: int = f(Int32, about="Broker id of the leader, -1 for none.")
    leader_epoch: int = f(Int32, since=7, default=-1, about="The leader's epoch.")
    replica_nodes: Sequence[int] = f(Array(Int32), about="Brokers that hold the partition.")
    isr_nodes: Sequence[int] = f(Array(Int32), about="Those in sync with the leader.")
    offline_replicas: Sequence[int] = f(Array(Int32), since=5, about="Those that are away.")


@wire
class MetadataResponseTopic(Struct):
    """One topic."""

    error_code: int = f(Int16, about="0, or what is wrong with the topic.")
    name: str | None = f(String, nullable_since=12, about="Name; null for an id that is not known.")
    topic_id: uuid.UUID = f(Uuid, since=10, about="Id; zero for a name that is not known.")
    is_internal: bool = f(Bool, since=1, about="Whether the cluster uses it for itself.")
    partitions: Sequence[MetadataResponsePartition] = f(
        Array(MetadataResponsePartition), about="Its partitions."
    )
    topic_authorized_operations: int = f(
        Int32, since=8, default=OPERATIONS_UNKNOWN, about="Bit field of what the asker may do."
    )


@wire
class MetadataResponse(Message):
    """The cluster as one broker sees it."""

    api_key = ApiKey.METADATA
    valid_versions = (0, 13)
    flexible_from = 9

    throttle_time_ms: int = f(Int32, since=3, about="How long a quota held the request back.")
    brokers: Sequence[MetadataResponseBroker] = f(
        Array(MetadataResponseBroker), about="The brokers that are up."
    )
    cluster_id: str | None = f(
        String, since=2, nullable_since=2, default=None, about="Id of the cluster."
    )
    controller_id: int = f(Int32, since=1, default=-1, about="Broker id of the controller, or -1.")
    topics: Sequence[MetadataResponseTopic] = f(
        Array(MetadataResponseTopic), about="The topics asked for."
    )
    cluster_authorized_operations: int = f(
        Int32,
        since=8,
        until=10,
        default=OPERATIONS_UNKNOWN,
        about="Bit field of what the asker may do with the cluster.",
    )
    error_code: int = f(Int16, since=13, about="0, or why the whole request failed.")


@wire
class MetadataRequestTopic(Struct):
    """A topic asked for, by name or (from v12) by id."""

    topic_id: uuid.UUID = f(Uuid, since=10, about="Its id, or zero.")
    name: str | None = f(String, nullable_since=10, about="Its name, or null.")


@wire
class MetadataRequest(Request[MetadataResponse]):
    """Ask for the cluster and topics."""

    api_key = ApiKey.METADATA
    valid_versions = (0, 13)
    flexible_from = 9

    topics: Sequence[MetadataRequestTopic] | None = f(
        Array(MetadataRequestTopic), nullable_since=1, about="Topics wanted; null for all."
    )
    allow_auto_topic_creation: bool = f(
        Bool, since=4, default=True, about="Whether unknown topics may be created."
    )
    include_cluster_authorized_operations: bool = f(
        Bool, since=8, until=10, about="Whether to tell what the asker may do with the cluster."
    )
    include_topic_authorized_operations: bool = f(
        Bool, since=8, about="Whether to tell what the asker may do with the topics."
    )
