"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in their partitions.

* v1 is flexible; v0 is gone (KIP-896)
* v2 says with which level of ``transaction.version`` each one ends (KIP-1228)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class WriteTxnMarkersResponsePartition(Struct):
    """Whether one partition has the marker."""

    partition_index: int = f(Int32, about="Number of the partition.")
    error_code: int = f(Int16, about="0, or why it does not have it.")


@wire
class WriteTxnMarkersResponseTopic(Struct):
    """Whether one topic's partitions have the marker."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[WriteTxnMarkersResponsePartition] = f(
        Array(WriteTxnMarkersResponsePartition), about="One for each partition of the request."
    )


@wire
class WriteTxnMarkersResponseMarker(Struct):
    """What became of one marker."""

    producer_id: int = f(Int64, about="The producer id.")
    topics: Sequence[WriteTxnMarkersResponseTopic] = f(
        Array(WriteTxnMarkersResponseTopic), about="One for each topic of the request."
    )


@wire
class WriteTxnMarkersResponse(Message):
    """Whether the partitions have their markers."""

    api_key = ApiKey.WRITE_TXN_MARKERS
    valid_versions = (1, 2)
    flexible_from = 1

    markers: Sequence[WriteTxnMarkersResponseMarker] = f(
        Array(WriteTxnMarkersResponseMarker), about="One for each marker of the request."
    )


@wire
class WriteTxnMarkersRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partition_indexes: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class WriteTxnMarkersRequestMarker(Struct):
    """The end of one transaction."""

    producer_id: int = f(Int64, about="The producer id.")
    producer_epoch: int = f(Int16, about="Its epoch; with version 2 the raised one.")
    transaction_result: bool = f(Bool, about="True to commit, false to abort.")
    topics: Sequence[WriteTxnMarkersRequestTopic] = f(
        Array(WriteTxnMarkersRequestTopic), about="One for each topic."
    )
    coordinator_epoch: int = f(Int32, about="The leader epoch of the coordinator's partition.")
    transaction_version: int = f(
        Int8, since=2, about="The level of transaction.version with which it ends."
    )


@wire
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Write these markers."""

    api_key = ApiKey.WRITE_TXN_MARKERS
    valid_versions = (1, 2)
    flexible_from = 1

    markers: Sequence[WriteTxnMarkersRequestMarker] = f(
        Array(WriteTxnMarkersRequestMarker), about="One for each transaction."
    )
