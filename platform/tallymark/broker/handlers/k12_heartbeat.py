"""k12 Heartbeat: a member reports that it is alive, and learns whether it must join again.

Served 0-4.

* v3 static members (KIP-345); v4 flexible

Kept: REBALANCE_IN_PROGRESS while members must join again, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
FENCED_INSTANCE_ID. The answer leaves when the generation that it confirms is committed. While the
coordinator loads there is no error, as in Kafka: nothing is known against the member yet, and
clients give up on one that they do not expect here (aiokafka does).
"""

from __future__ import annotations

from collections.abc import Awaitable

from tallymark.broker.coordinators.refusals import LOADING
from tallymark.broker.coordinators.settled import respond
from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import HeartbeatRequest, HeartbeatResponse


def handle(
    state: BrokerState, request: HeartbeatRequest, call: Call
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Restart the member's session timeout."""
    try:
        shard = authorized_shard(state, call.connection, Operation.READ, request.group_id)
    except KafkaError as error:
        return _response(0 if error.code == LOADING else error.code)
    code = shard.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    if isinstance(code, int):  # the most frequent request of all
        return _response(code)
    return respond(code, _response)


def _response(code: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


register(HeartbeatRequest, handle)
