"""DescribeGroups (key 15): the state of groups and of their members.

* v3 may list what the asker is authorized to do, v4 has static ids, v5 is flexible
* v6 says GROUP_ID_NOT_FOUND of an unknown group, which was "Dead" before (KIP-1043)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages.k03_metadata import OPERATIONS_UNKNOWN
from tallymark.protocol.schema import (
    Array,
    Bool,
    Buffer,
    Bytes,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class DescribeGroupsResponseMember(Struct):
    """One member."""

    member_id: str = f(String, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=4, nullable_since=4, default=None, about="Its static id, or null."
    )
    client_id: str = f(String, about="Client id of its connection.")
    client_host: str = f(String, about="Address of its connection.")
    member_metadata: Buffer = f(Bytes, about="What it sent for the chosen protocol.")
    member_assignment: Buffer = f(Bytes, about="Its part.")


@wire
class DescribeGroupsResponseGroup(Struct):
    """One group."""

    error_code: int = f(Int16, about="0, or why it is not described.")
    error_message: str | None = f(
        String, since=6, nullable_since=6, default=None, about="The error in words, or null."
    )
    group_id: str = f(String, about="The group.")
    group_state: str = f(
        String, about='"Empty", "PreparingRebalance", "CompletingRebalance", "Stable" or "Dead".'
    )
    protocol_type: str = f(String, about='What the group is for, or "".')
    protocol_data: str = f(String, about='Protocol that was chosen, or "".')
    members: Sequence[DescribeGroupsResponseMember] = f(
        Array(DescribeGroupsResponseMember), about="Its members."
    )
    authorized_operations: int = f(
        Int32, since=3, default=OPERATIONS_UNKNOWN, about="Bit field of what the asker may do."
    )


@wire
class DescribeGroupsResponse(Message):
    """The groups."""

    api_key = ApiKey.DESCRIBE_GROUPS
    valid_versions = (0, 6)
    flexible_from = 5

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    groups: Sequence[DescribeGroupsResponseGroup] = f(
        Array(DescribeGroupsResponseGroup), about="One for each group of the request."
    )


@wire
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Ask about groups."""

    api_key = ApiKey.DESCRIBE_GROUPS
    valid_versions = (0, 6)
    flexible_from = 5

    groups: Sequence[str] = f(Array(String), about="The groups.")
    include_authorized_operations: bool = f(
        Bool, since=3, about="Whether to tell what the asker may do with each."
    )
