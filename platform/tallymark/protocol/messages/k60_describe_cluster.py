"""DescribeCluster (key 60): the brokers and the controller (KIP-700).

* v0 is flexible, v1 can ask for controllers instead (KIP-919), v2 marks brokers that are fenced
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages.k03_metadata import OPERATIONS_UNKNOWN
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class DescribeClusterResponseBroker(Struct):
    """One broker."""

    broker_id: int = f(Int32, about="Id of the broker.")
    host: str = f(String, about="Its host.")
    port: int = f(Int32, about="Its port.")
    rack: str | None = f(String, nullable_since=0, default=None, about="Its rack, or null.")
    is_fenced: bool = f(Bool, since=2, about="Whether it is kept from serving.")


@wire
class DescribeClusterResponse(Message):
    """The cluster."""

    api_key = ApiKey.DESCRIBE_CLUSTER
    valid_versions = (0, 2)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing is told.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    endpoint_type: int = f(Int8, since=1, default=1, about="1 brokers, 2 controllers.")
    cluster_id: str = f(String, about="Id of the cluster.")
    controller_id: int = f(Int32, default=-1, about="Broker id of the controller, or -1.")
    brokers: Sequence[DescribeClusterResponseBroker] = f(
        Array(DescribeClusterResponseBroker), about="The brokers."
    )
    cluster_authorized_operations: int = f(
        Int32, default=OPERATIONS_UNKNOWN, about="Bit field of what the asker may do."
    )


@wire
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """Ask about the cluster."""

    api_key = ApiKey.DESCRIBE_CLUSTER
    valid_versions = (0, 2)
    flexible_from = 0

    include_cluster_authorized_operations: bool = f(
        Bool, about="Whether to tell what the asker may do with the cluster."
    )
    endpoint_type: int = f(Int8, since=1, default=1, about="1 brokers, 2 controllers.")
    include_fenced_brokers: bool = f(
        Bool, since=2, about="Whether to tell brokers that are fenced."
    )
