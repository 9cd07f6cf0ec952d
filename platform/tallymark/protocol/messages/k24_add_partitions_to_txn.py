"""AddPartitionsToTxn (key 24): partitions join a transaction, or a leader asks whether one has.

* v0 to v3 are a producer's, for its one transaction; v3 is flexible
* v4 is for brokers: many transactions, each to be verified or added to (KIP-890)
* v5 adds for a producer of ``transaction.version`` 2
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
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
class AddPartitionsToTxnResponsePartition(Struct):
    """Whether one partition is in the transaction."""

    partition_index: int = f(Int32, about="Number of the partition.")
    partition_error_code: int = f(Int16, about="0, or why it is not.")


@wire
class AddPartitionsToTxnResponseTopic(Struct):
    """Whether one topic's partitions are in the transaction."""

    name: str = f(String, about="Name of the topic.")
    results_by_partition: Sequence[AddPartitionsToTxnResponsePartition] = f(
        Array(AddPartitionsToTxnResponsePartition), about="One for each partition of the request."
    )


@wire
class AddPartitionsToTxnResponseTransaction(Struct):
    """Whether the partitions are in one transaction."""

    transactional_id: str = f(String, since=4, about="The transactional id.")
    topic_results: Sequence[AddPartitionsToTxnResponseTopic] = f(
        Array(AddPartitionsToTxnResponseTopic), since=4, about="One for each topic of the request."
    )


@wire
class AddPartitionsToTxnResponse(Message):
    """Whether the partitions are in their transactions."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    valid_versions = (0, 5)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, since=4, about="0, or why the whole request failed.")
    results_by_transaction: Sequence[AddPartitionsToTxnResponseTransaction] = f(
        Array(AddPartitionsToTxnResponseTransaction),
        since=4,
        about="One for each transaction of the request.",
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnResponseTopic] = f(
        Array(AddPartitionsToTxnResponseTopic), until=3, about="One for each topic of the request."
    )


@wire
class AddPartitionsToTxnRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class AddPartitionsToTxnRequestTransaction(Struct):
    """One transaction, and what is to be in it."""

    transactional_id: str = f(String, since=4, about="The transactional id.")
    producer_id: int = f(Int64, since=4, about="Its producer id.")
    producer_epoch: int = f(Int16, since=4, about="The epoch of that.")
    verify_only: bool = f(Bool, since=4, about="Only ask whether they are in it.")
    topics: Sequence[AddPartitionsToTxnRequestTopic] = f(
        Array(AddPartitionsToTxnRequestTopic), since=4, about="One for each topic."
    )


@wire
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Add partitions to a transaction, or to many."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN
    valid_versions = (0, 5)
    flexible_from = 3

    transactions: Sequence[AddPartitionsToTxnRequestTransaction] = f(
        Array(AddPartitionsToTxnRequestTransaction), since=4, about="One for each transaction."
    )
    v3_and_below_transactional_id: str = f(String, until=3, about="The transactional id.")
    v3_and_below_producer_id: int = f(Int64, until=3, about="Its producer id.")
    v3_and_below_producer_epoch: int = f(Int16, until=3, about="The epoch of that.")
    v3_and_below_topics: Sequence[AddPartitionsToTxnRequestTopic] = f(
        Array(AddPartitionsToTxnRequestTopic), until=3, about="One for each topic."
    )
