"""k42 DeleteGroups: delete groups and their committed offsets.

Served 0-2.

* v2 flexible

Kept: a group with members is NON_EMPTY_GROUP.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.groups.log import refusal_of
from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
)

_GROUPS_A_TURN: Final = 10


async def handle(
    state: BrokerState, request: DeleteGroupsRequest, call: Call
) -> DeleteGroupsResponse:
    """Delete each group by itself."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponseResult(group_id, _delete(state, group_id, call))
            async for group_id in in_turns(request.groups_names, _GROUPS_A_TURN)
        ]
    )


def _delete(state: BrokerState, group_id: str, call: Call) -> int:
    try:
        shard = authorized_shard(state, call.connection, Operation.DELETE, group_id)
    except KafkaError as error:
        return error.code
    try:
        return shard.delete_group(group_id)
    except KafkaError as error:
        return refusal_of(error)


register(DeleteGroupsRequest, handle)
