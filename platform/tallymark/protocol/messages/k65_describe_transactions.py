"""DescribeTransactions (key 65): what a coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
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
class DescribeTransactionsResponseTopic(Struct):
    """Partitions of one topic."""

    topic: str = f(String, about="Name of the topic.")
    partitions: Sequence[int] = f(Array(Int32), about="Numbers of the partitions.")


@wire
class DescribeTransactionsResponseTransactionState(Struct):
    """One transactional id."""

    error_code: int = f(Int16, about="0, or why it is not described.")
    transactional_id: str = f(String, about="The transactional id.")
    transaction_state: str = f(String, about="Kafka's name of the state.")
    transaction_timeout_ms: int = f(Int32, about="When an open transaction is given up.")
    transaction_start_time_ms: int = f(Int64, about="When it began, or -1.")
    producer_id: int = f(Int64, about="Its producer id.")
    producer_epoch: int = f(Int16, about="The epoch of that.")
    topics: Sequence[DescribeTransactionsResponseTopic] = f(
        Array(DescribeTransactionsResponseTopic), about="What the open transaction has."
    )


@wire
class DescribeTransactionsResponse(Message):
    """The transactional ids asked for."""

    api_key = ApiKey.DESCRIBE_TRANSACTIONS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    transaction_states: Sequence[DescribeTransactionsResponseTransactionState] = f(
        Array(DescribeTransactionsResponseTransactionState),
        about="One for each id of the request.",
    )


@wire
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Describe transactional ids."""

    api_key = ApiKey.DESCRIBE_TRANSACTIONS
    valid_versions = (0, 0)
    flexible_from = 0

    transactional_ids: Sequence[str] = f(Array(String), about="The transactional ids.")
