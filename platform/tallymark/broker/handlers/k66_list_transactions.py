"""k66 ListTransactions: the transactional ids that this broker coordinates (KIP-664).

Served 0-2.

* v1 only transactions that have been open for some time (KIP-994)
* v2 only ids that a pattern matches as a whole (KIP-1152)

Kept: lists the ids that the client may DESCRIBE. States that do not exist are named in the answer.
While a partition is still loaded it is COORDINATOR_LOAD_IN_PROGRESS. Simplified: of RE2's syntax
what :mod:`tallymark.transactions.patterns` lists; the rest is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from tallymark.broker.coordinators.settled import when
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from tallymark.transactions.patterns import BadPattern, Pattern
from tallymark.transactions.transaction import NAMES, NONE, Transaction

_NAMES: Final = frozenset(NAMES.values())
_IDS_A_TURN: Final = 500
_Listed = ListTransactionsResponseTransactionState


async def handle(
    state: BrokerState, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    """List those that match, and wait until all that is committed."""
    if state.transaction_shards.loading:
        return ListTransactionsResponse(error_code=CODES["COORDINATOR_LOAD_IN_PROGRESS"])
    try:
        pattern = _pattern(request)
        found = [
            each async for part in _parts(state, request, call) for each in await _of(pattern, part)
        ]
    except BadPattern:
        return ListTransactionsResponse(error_code=CODES["INVALID_REGULAR_EXPRESSION"])
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    unknown = [each for each in request.state_filters if each not in _NAMES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


async def _parts(
    state: BrokerState, request: ListTransactionsRequest, call: Call
) -> AsyncIterator[list[_Listed]]:
    """The ids of each partition that match but for the pattern, once they are committed."""
    now, may = state.now_ms(), state.authorizer.may
    for shard in state.transaction_shards.shards():
        listed: list[_Listed] = []
        async for each in in_turns(shard.state, _IDS_A_TURN):
            name = each.transactional_id
            if _matches(each, request, now) and may(
                call.connection, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, quiet=True
            ):
                listed.append(_Listed(name, each.producer_id, NAMES[each.state]))
        if await when(shard.settled(0, _same)):
            raise KafkaError(CODES["COORDINATOR_NOT_AVAILABLE"], str(shard.partition))
        yield listed


def _pattern(request: ListTransactionsRequest) -> Pattern | None:
    text = request.transactional_id_pattern
    return Pattern(text) if text else None


async def _of(pattern: Pattern | None, listed: Sequence[_Listed]) -> Sequence[_Listed]:
    """What the pattern matches; in a thread, since long ids take their time."""
    if pattern is None or not listed:
        return listed
    return await asyncio.to_thread(
        lambda: [each for each in listed if pattern.matches(each.transactional_id)]
    )


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
