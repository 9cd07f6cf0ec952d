"""ListTransactions (key 66): the transactional ids that a broker coordinates (KIP-664).

* v1 filters by how long a transaction has been open (KIP-994); v2 by a pattern of ids (KIP-1152)
"""

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
class ListTransactionsResponseTransactionState(Struct):
    """One transactional id."""

    transactional_id: str = f(String, about="The transactional id.")
    producer_id: int = f(Int64, about="Its producer id.")
    transaction_state: str = f(String, about="Kafka's name of the state.")


@wire
class ListTransactionsResponse(Message):
    """Transactional ids that match."""

    api_key = ApiKey.LIST_TRANSACTIONS
    valid_versions = (0, 2)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing is listed.")
    unknown_state_filters: Sequence[str] = f(
        Array(String), about="States of the request that do not exist."
    )
    transaction_states: Sequence[ListTransactionsResponseTransactionState] = f(
        Array(ListTransactionsResponseTransactionState), about="Those that match."
    )


@wire
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """List transactional ids; all filters must match."""

    api_key = ApiKey.LIST_TRANSACTIONS
    valid_versions = (0, 2)
    flexible_from = 0

    state_filters: Sequence[str] = f(Array(String), about="Names of states, or empty for all.")
    producer_id_filters: Sequence[int] = f(Array(Int64), about="Producer ids, or empty for all.")
    duration_filter: int = f(
        Int64, since=1, default=-1, about="Only those open for as many ms or more, or -1."
    )
    transactional_id_pattern: str | None = f(
        String, since=2, nullable_since=2, default=None, about="RE2 pattern of ids, or null."
    )
