"""k13 LeaveGroup: members leave, and the others get their partitions.

Served 0-5.

* v0 to v2 one member; v3 several at once, by member id or static id (KIP-345); v4 flexible
* v5 a reason, which goes to the log (KIP-800)

Kept: a static member is only removed by this request, by its session's end, or when its instance
rejoins under a new id. In an unknown group every member is UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Final

from tallymark.broker.coordinators.settled import respond
from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.groups.inputs import Leaver
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)

log = logging.getLogger(__name__)

_FIRST_WITH_MANY: Final = 3


def handle(
    state: BrokerState, request: LeaveGroupRequest, call: Call
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    """Remove the members named, each with a code of its own."""
    members = request.members
    if call.version < _FIRST_WITH_MANY:
        members = [LeaveGroupRequestMember(member_id=request.member_id)]
    try:
        shard = authorized_shard(state, call.connection, Operation.READ, request.group_id)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    for member in members:
        if member.reason:
            log.info(
                "group=%.249r member=%.300r leaves: %.255r",
                request.group_id,
                member.member_id or member.group_instance_id,
                member.reason,
            )
    leavers = [Leaver(member.member_id, member.group_instance_id) for member in members]
    return respond(
        shard.leave(request.group_id, leavers), lambda codes: _response(members, codes, call)
    )


def _response(
    members: Sequence[LeaveGroupRequestMember], codes: Sequence[int], call: Call
) -> LeaveGroupResponse:
    if call.version < _FIRST_WITH_MANY:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            LeaveGroupResponseMember(member.member_id, member.group_instance_id, code)
            for member, code in zip(members, codes, strict=True)
        ]
    )


register(LeaveGroupRequest, handle)
