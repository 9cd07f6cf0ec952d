"""k16 ListGroups: the groups that this broker coordinates.

Served 0-5.

* v3 flexible; v4 states, and only groups in certain ones (KIP-518); v5 types (KIP-848)

Kept: a client that may describe the cluster sees all groups, others those they may describe. Every
group is of the type "classic". While a partition of groups is being loaded the list is not
complete, and has the error COORDINATOR_LOAD_IN_PROGRESS. The answer leaves when what it contains is
committed; the groups of a partition where that does not come about are left out, and the error is
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tallymark.broker.coordinators.settled import Settled, when
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES
from tallymark.groups.group import Group
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseGroup,
)

_CLASSIC: Final = "classic"
_GROUPS_A_TURN: Final = 500

_Listed: TypeAlias = list[ListGroupsResponseGroup] | None
"""The groups of one partition; None where they may not be sent."""


async def handle(state: BrokerState, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """List, filtered."""
    who, may = call.connection, state.authorizer.may
    everything = may(who, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}

    def listed(group: Group) -> bool:
        return (not states or group.state.value.lower() in states) and (
            everything
            or may(who, Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quiet=True)
        )

    asked: list[Settled[_Listed]] = []
    for shard in state.group_shards.shards() if not types or _CLASSIC in types else ():
        found = [
            ListGroupsResponseGroup(
                group.group_id, group.protocol_type or "", group.state.value, _CLASSIC
            )
            async for group in in_turns(shard.groups(), _GROUPS_A_TURN)
            if listed(group)
        ]
        asked.append(shard.settled(found, lambda _: None))
    loading = state.group_shards.loading
    groups = [await when(each) for each in asked]
    code = CODES["COORDINATOR_LOAD_IN_PROGRESS"] if loading else 0
    if None in groups:
        code = CODES["COORDINATOR_NOT_AVAILABLE"]
    return ListGroupsResponse(
        error_code=code, groups=[group for part in groups if part is not None for group in part]
    )


register(ListGroupsRequest, handle)
