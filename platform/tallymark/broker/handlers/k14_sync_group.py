"""k14 SyncGroup: the leader sends the assignment, every member gets its part.

Served 0-5.

* v3 static members (KIP-345); v4 flexible
* v5 the member's protocol, INCONSISTENT_GROUP_PROTOCOL where the group has another (KIP-559)

Kept: the assignment is a record of ``__consumer_offsets`` before any member gets it; the answer
is parked until then.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.inputs import Sync, SyncReply
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import SyncGroupRequest, SyncGroupResponse

_FIRST_WITH_PROTOCOL: Final = 5


def handle(
    state: BrokerState, request: SyncGroupRequest, call: Call
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Park, decide; the answer comes now or later."""
    try:
        shard = authorized_shard(state, call.connection, Operation.READ, request.group_id)
        if call.version >= _FIRST_WITH_PROTOCOL and None in (
            request.protocol_type,
            request.protocol_name,
        ):
            raise KafkaError(CODES["INCONSISTENT_GROUP_PROTOCOL"], "no protocol is named")
    except KafkaError as error:
        return _response(SyncReply(error.code))
    sync = Sync(
        ticket=0,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
    )
    return _later(shard.sync(request.group_id, sync))


async def _later(reply: Awaitable[SyncReply]) -> SyncGroupResponse:
    return _response(await reply)


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )


register(SyncGroupRequest, handle)
