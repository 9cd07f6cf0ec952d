"""k42 DeleteGroups: delete groups and their committed offsets.

Served 0-2.

* v2 flexible

Kept: a group with members is NON_EMPTY_GROUP. The answer leaves when the deletion is committed.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.coordinators.refusals import refusal_of
from tallymark.broker.coordinators.settled import Settled, when
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
    """Delete each group by itself, then wait until all that is committed."""
    codes = [
        (group_id, _delete(state, group_id, call))
        async for group_id in in_turns(request.groups_names, _GROUPS_A_TURN)
    ]
    return DeleteGroupsResponse(
        results=[DeleteGroupsResponseResult(group_id, await when(code)) for group_id, code in codes]
    )


def _delete(state: BrokerState, group_id: str, call: Call) -> Settled[int]:
    try:
        shard = authorized_shard(state, call.connection, Operation.DELETE, group_id)
    except KafkaError as error:
        return error.code
    try:
        return shard.delete_group(group_id)
    except KafkaError as error:
        return refusal_of(error)


register(DeleteGroupsRequest, handle)
