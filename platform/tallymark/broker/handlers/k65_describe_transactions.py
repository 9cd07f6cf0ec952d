"""k65 DescribeTransactions: what is known of transactional ids (KIP-664).

Served 0.

Kept: it needs DESCRIBE on each id, and shows the topics that the client may DESCRIBE. An id that
another broker coordinates is NOT_COORDINATOR, an unknown one TRANSACTIONAL_ID_NOT_FOUND.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from tallymark.broker.coordinators.settled import Settled, when
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.transaction_coordinator import authorized_shard
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransactionState,
)
from tallymark.transactions.transaction import NAMES, Transaction

_NOT_FOUND: Final = CODES["TRANSACTIONAL_ID_NOT_FOUND"]


async def handle(
    state: BrokerState, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    """Describe each id, then wait until all that is committed."""
    found = [_describe(state, name, call) async for name in in_turns(request.transactional_ids)]
    return DescribeTransactionsResponse(transaction_states=[await when(each) for each in found])


def _describe(
    state: BrokerState, name: str, call: Call
) -> Settled[DescribeTransactionsResponseTransactionState]:
    def refuse(code: int) -> DescribeTransactionsResponseTransactionState:
        return DescribeTransactionsResponseTransactionState(error_code=code, transactional_id=name)

    try:
        shard = authorized_shard(state, call.connection, Operation.DESCRIBE, name)
    except KafkaError as error:
        return refuse(error.code)
    transaction = shard.state.get(name)
    told = refuse(_NOT_FOUND) if transaction is None else _told(state, transaction, call)
    return shard.settled(told, refuse)


def _told(
    state: BrokerState, transaction: Transaction, call: Call
) -> DescribeTransactionsResponseTransactionState:
    may, who = state.authorizer.may, call.connection
    return DescribeTransactionsResponseTransactionState(
        transactional_id=transaction.transactional_id,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic, [index for _, index in partitions])
            for topic, partitions in groupby(sorted(transaction.partitions), lambda each: each[0])
            if may(who, Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=True)
        ],
    )


register(DescribeTransactionsRequest, handle)
