"""JoinGroup (key 11): enter a group, and wait until its next generation is complete.

The answer comes when every member has joined or the rebalance timeout is over. The coordinator
looks at no metadata: the leader gets the list of all members and decides which reads what.

* v1 separates session and rebalance timeouts, v4 makes a new member join twice, with the id
  that the first answer gives (KIP-394), v5 adds static members (KIP-345)
* v6 is flexible, v7 answers the protocol's type (KIP-559), v8 says why (KIP-800)
* v9 may ask a static leader to skip the assignment (KIP-814)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
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
class JoinGroupResponseMember(Struct):
    """One member, as the leader sees it."""

    member_id: str = f(String, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=5, nullable_since=5, default=None, about="Its static id, or null."
    )
    metadata: Buffer = f(Bytes, about="What it sent for the chosen protocol.")


@wire
class JoinGroupResponse(Message):
    """The member's place in the new generation."""

    api_key = ApiKey.JOIN_GROUP
    valid_versions = (0, 9)
    flexible_from = 6

    throttle_time_ms: int = f(Int32, since=2, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why the member is not in.")
    generation_id: int = f(Int32, default=-1, about="Number of the generation.")
    protocol_type: str | None = f(
        String, since=7, nullable_since=7, default=None, about="Type that the group runs, or null."
    )
    protocol_name: str | None = f(String, nullable_since=7, about="Protocol that all members know.")
    leader: str = f(String, about="Member id of the leader.")
    skip_assignment: bool = f(
        Bool, since=9, about="Whether the leader keeps the assignment there is."
    )
    member_id: str = f(String, about="Id of the member that asked.")
    members: Sequence[JoinGroupResponseMember] = f(
        Array(JoinGroupResponseMember), about="All members for the leader, none for the others."
    )


@wire
class JoinGroupRequestProtocol(Struct):
    """One way of assigning that the member knows."""

    name: str = f(String, about="Name of the protocol.")
    metadata: Buffer = f(Bytes, about="The member's facts for it.")


@wire
class JoinGroupRequest(Request[JoinGroupResponse]):
    """Enter a group."""

    api_key = ApiKey.JOIN_GROUP
    valid_versions = (0, 9)
    flexible_from = 6

    group_id: str = f(String, about="The group.")
    session_timeout_ms: int = f(Int32, about="How long a member may be silent.")
    rebalance_timeout_ms: int = f(
        Int32,
        since=1,
        default=-1,
        about="How long members have to join again; -1 for the session timeout.",
    )
    member_id: str = f(String, about='Id given earlier, or "".')
    group_instance_id: str | None = f(
        String, since=5, nullable_since=5, default=None, about="The static id, or null."
    )
    protocol_type: str = f(String, about='What the group is for: "consumer", "connect", ...')
    protocols: Sequence[JoinGroupRequestProtocol] = f(
        Array(JoinGroupRequestProtocol), about="What the member knows, best first."
    )
    reason: str | None = f(
        String, since=8, nullable_since=8, default=None, about="Why the member joins, or null."
    )
