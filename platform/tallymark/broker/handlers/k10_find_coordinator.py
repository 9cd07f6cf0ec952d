"""k10 FindCoordinator: which broker coordinates a group or a transactional id.

Served 0-6.

* v1 names the kind of key (KIP-98); v3 flexible; v4 many keys at once (KIP-699)
* v5 an error code of transactions (KIP-890); v6 share groups (KIP-932)

Kept: the coordinator is the leader of the group's partition of ``__consumer_offsets``, or of the
id's partition of ``__transaction_state``; the first request creates the topic. Simplified: no share
groups: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.requests import group_coordinator, transaction_coordinator
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.coordinator_partition import GROUP, TRANSACTION
from tallymark.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

_FIRST_WITH_MANY: Final = 4


async def handle(
    state: BrokerState, request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    """Find each key's coordinator by itself."""
    if call.version >= _FIRST_WITH_MANY:
        return FindCoordinatorResponse(
            coordinators=[
                await _find(state, key, request.key_type, call)
                async for key in in_turns(request.coordinator_keys)
            ]
        )
    found = await _find(state, request.key, request.key_type, call)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(
    state: BrokerState, key: str, key_type: int, call: Call
) -> FindCoordinatorResponseCoordinator:
    try:
        broker = await _coordinator_of(state, key, key_type, call)
        reached = broker.at(call.connection.listener)
        if reached is None:
            raise KafkaError(
                CODES["COORDINATOR_NOT_AVAILABLE"],
                f"broker {broker.node_id} has no listener {call.connection.listener}",
            )
    except KafkaError as error:
        return FindCoordinatorResponseCoordinator(
            key=key, node_id=-1, port=-1, error_code=error.code, error_message=str(error)
        )
    return FindCoordinatorResponseCoordinator(
        key=key, node_id=broker.node_id, host=reached.host, port=reached.port, error_message=None
    )


async def _coordinator_of(state: BrokerState, key: str, key_type: int, call: Call) -> BrokerImage:
    authorizer, who, describe = state.authorizer, call.connection, Operation.DESCRIBE
    if key_type == TRANSACTION:
        require(authorizer, who, describe, ResourceType.TRANSACTIONAL_ID, key)
        return await transaction_coordinator.coordinator_of(state, key)
    if key_type != GROUP:
        raise KafkaError(CODES["INVALID_REQUEST"], f"key type {key_type} is not served")
    require(authorizer, who, describe, ResourceType.GROUP, key)
    return await group_coordinator.coordinator_of(state, key)


register(FindCoordinatorRequest, handle)
