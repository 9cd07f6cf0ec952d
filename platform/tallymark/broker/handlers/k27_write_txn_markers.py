"""k27 WriteTxnMarkers: transactions end in partitions that this broker leads.

Served 1-2.

* v1 flexible; v2 the level of ``transaction.version`` with which each one ends (KIP-1228)

Kept: it needs CLUSTER_ACTION. An error in one partition is not one of others. A marker that is
there already is success; one of an older coordinator is TRANSACTION_COORDINATOR_FENCED.
The answer leaves when all markers are committed, and in force for the offsets of groups.
"""

from __future__ import annotations

from tallymark.broker.requests.cluster_action import require_cluster_action
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.requests.write_markers import uniform_answer, write_markers
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


async def handle(
    state: BrokerState, request: WriteTxnMarkersRequest, call: Call
) -> WriteTxnMarkersResponse:
    """Write them, if the client is a broker."""
    try:
        require_cluster_action(state, call.connection)
    except KafkaError as error:
        return uniform_answer(request, error.code)
    return await write_markers(state, request)


register(WriteTxnMarkersRequest, handle)
