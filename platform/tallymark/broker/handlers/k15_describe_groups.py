"""k15 DescribeGroups: the state and the members of groups.

Served 0-6.

* v3 what the client may do with each (KIP-430); v4 static ids (KIP-345); v5 flexible
* v6 GROUP_ID_NOT_FOUND for an unknown group, and errors as text (KIP-1043); in older versions such
  a group has the state Dead, without an error

Kept: only a stable group has metadata and assignments. Beyond Kafka: a group that one request names
twice is INVALID_REQUEST; otherwise a small request could cause a huge answer.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.coordinators.settled import Settled, when
from tallymark.broker.requests.group_coordinator import authorized_shard
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import operations_bits
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.groups.group import Group, Member, State
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
)

_FIRST_WITH_NOT_FOUND: Final = 6
_GROUPS_A_TURN: Final = 10
_NOT_ASKED: Final = -(2**31)


async def handle(
    state: BrokerState, request: DescribeGroupsRequest, call: Call
) -> DescribeGroupsResponse:
    """Describe each group by itself."""
    seen: set[str] = set()
    groups: list[Settled[DescribeGroupsResponseGroup]] = []
    async for group_id in in_turns(request.groups, _GROUPS_A_TURN):
        groups.append(_describe(state, request, group_id, call, group_id in seen))
        seen.add(group_id)
    return DescribeGroupsResponse(groups=[await when(group) for group in groups])


def _describe(
    state: BrokerState, request: DescribeGroupsRequest, group_id: str, call: Call, again: bool
) -> Settled[DescribeGroupsResponseGroup]:
    try:
        if again:
            raise KafkaError(CODES["INVALID_REQUEST"], f"{group_id[:80]!r} is named twice")
        shard = authorized_shard(state, call.connection, Operation.DESCRIBE, group_id)
    except KafkaError as error:
        return _refused(group_id, error.code, str(error))
    group = shard.group(group_id)
    if group is None and call.version >= _FIRST_WITH_NOT_FOUND:
        answer = _refused(group_id, CODES["GROUP_ID_NOT_FOUND"], f"group {group_id[:80]!r}")
    else:
        answer = _found(state, request, group or Group(group_id, state=State.DEAD), call)
    return shard.settled(
        answer, lambda code: _refused(group_id, code, "what is known is not committed")
    )


def _refused(group_id: str, code: int, why: str) -> DescribeGroupsResponseGroup:
    return DescribeGroupsResponseGroup(
        group_id=group_id,
        error_code=code,
        error_message=why,
        group_state=State.DEAD.value if code == CODES["GROUP_ID_NOT_FOUND"] else "",
    )


def _found(
    state: BrokerState, request: DescribeGroupsRequest, group: Group, call: Call
) -> DescribeGroupsResponseGroup:
    group_id = group.group_id
    stable = group.state is State.STABLE
    allowed = _NOT_ASKED
    if request.include_authorized_operations:
        allowed = operations_bits(state.authorizer, call.connection, ResourceType.GROUP, group_id)
    return DescribeGroupsResponseGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(group, member, stable) for member in group.members.values()],
        authorized_operations=allowed,
    )


def _member(group: Group, member: Member, stable: bool) -> DescribeGroupsResponseMember:
    return DescribeGroupsResponseMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_of(group.protocol) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )


register(DescribeGroupsRequest, handle)
