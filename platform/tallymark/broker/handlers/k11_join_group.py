"""k11 JoinGroup: be in the next generation of a group.

Served 0-9.

* v1 a rebalance timeout of its own; in v0 the session timeout is taken
* v4 a client without a member id gets one and joins again with it: MEMBER_ID_REQUIRED (KIP-394)
* v5 static members (KIP-345); v6 flexible; v7 the protocol type in the answer (KIP-559)
* v8 a reason, which goes to the log (KIP-800)
* v9 a static leader that rejoins may keep the assignment (KIP-814)

Kept: the answer is parked until the rebalance has completed its join phase.
:mod:`tallymark.groups.joining` decides which members are accepted, and what follows. Beyond Kafka:
the metadata of one member is bounded by ``message.max.bytes`` (INVALID_REQUEST), the number of
members together with ids given in advance by ``group.max.size``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable
from typing import Final

from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.groups.inputs import Join, JoinReply
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

log = logging.getLogger(__name__)

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_WITH_REQUIRED_ID: Final = 4
_FIRST_WITH_NULL_PROTOCOL: Final = 7
_FIRST_WITH_SKIPPED_ASSIGNMENT: Final = 9
_LONGEST_PREFIX: Final = 255
"""A member id begins with the client id, which may be 32 KiB long."""


def handle(
    state: BrokerState, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Park, decide; the answer comes now or later."""
    try:
        shard = authorized_shard(state, call.connection, Operation.READ, request.group_id)
    except KafkaError as error:
        return _response(JoinReply(error.code, member_id=request.member_id), call.version)
    if request.reason:
        log.info(
            "group=%.249r member=%.300r joins: %.255r",
            request.group_id,
            request.member_id,
            request.reason,
        )
    return _later(shard.join(request.group_id, _join(request, call)), call.version)


async def _later(reply: Awaitable[JoinReply], version: int) -> JoinGroupResponse:
    return _response(await reply, version)


def _join(request: JoinGroupRequest, call: Call) -> Join:
    client_id = call.client_id or ""
    prefix = (request.group_instance_id or client_id)[:_LONGEST_PREFIX]
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if call.version < _FIRST_WITH_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = request.session_timeout_ms
    return Join(
        ticket=0,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        fresh_id=f"{prefix}-{uuid.uuid4()}",
        client_id=client_id,
        client_host=f"/{call.connection.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(rebalance_timeout_ms, 0),
        protocol_type=request.protocol_type,
        # Copies: the decoded fields are views of the request, and would keep all of it in memory.
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        must_know_id=call.version >= _FIRST_WITH_REQUIRED_ID,
        may_skip_assignment=call.version >= _FIRST_WITH_SKIPPED_ASSIGNMENT,
    )


def _response(reply: JoinReply, version: int) -> JoinGroupResponse:
    protocol = reply.protocol
    if protocol is None and version < _FIRST_WITH_NULL_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(member_id, instance_id, metadata)
            for member_id, instance_id, metadata in reply.members
        ],
    )


register(JoinGroupRequest, handle)
