"""k66 ListTransactions: the transactional ids that this broker coordinates (KIP-664).

Served 0-1.

* v1 only transactions that have been open for some time (KIP-994)

Kept: lists the ids that the client may DESCRIBE. States that do not exist are named in the answer.
While a partition is still loaded it is COORDINATOR_LOAD_IN_PROGRESS. Simplified: no patterns (v2):
they would be run by an engine that some patterns keep busy for ever.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.coordinators.settled import when
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from tallymark.transactions.transaction import NAMES, NONE, Transaction

_NAMES: Final = frozenset(NAMES.values())
_IDS_A_TURN: Final = 500


async def handle(
    state: BrokerState, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    """List those that match, and wait until all that is committed."""
    if state.transaction_shards.loading:
        return ListTransactionsResponse(error_code=CODES["COORDINATOR_LOAD_IN_PROGRESS"])
    now, may = state.now_ms(), state.authorizer.may
    listed: list[ListTransactionsResponseTransactionState] = []
    for shard in state.transaction_shards.shards():
        async for each in in_turns(shard.state, _IDS_A_TURN):
            name = each.transactional_id
            if _matches(each, request, now) and may(
                call.connection, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, quiet=True
            ):
                told = NAMES[each.state]
                listed.append(
                    ListTransactionsResponseTransactionState(name, each.producer_id, told)
                )
        refused = await when(shard.settled(0, _same))
        if refused:
            return ListTransactionsResponse(error_code=CODES["COORDINATOR_NOT_AVAILABLE"])
    unknown = [each for each in request.state_filters if each not in _NAMES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _same(code: int) -> int:
    return code


def _matches(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    states, ids, open_for = (
        request.state_filters,
        request.producer_id_filters,
        request.duration_filter,
    )
    return (
        (not states or NAMES[transaction.state] in states)
        and (not ids or transaction.producer_id in ids)
        and (
            open_for < 0
            or (transaction.started_ms != NONE and now_ms - transaction.started_ms >= open_for)
        )
    )


register(ListTransactionsRequest, handle)
