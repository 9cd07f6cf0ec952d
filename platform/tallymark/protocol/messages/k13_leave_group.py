"""LeaveGroup (key 13): go, without waiting for the session to run out.

* v3 names many members at once, static ones too, so that an operator can remove them (KIP-345)
* v4 is flexible, v5 says why (KIP-800)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Array, Int16, Int32, Message, Request, String, Struct, f, wire


@wire
class LeaveGroupResponseMember(Struct):
    """What became of one member."""

    member_id: str = f(String, since=3, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="Its static id, or null."
    )
    error_code: int = f(Int16, since=3, about="0, or why it did not leave.")


@wire
class LeaveGroupResponse(Message):
    """What became of the members."""

    api_key = ApiKey.LEAVE_GROUP
    valid_versions = (0, 5)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nobody left.")
    members: Sequence[LeaveGroupResponseMember] = f(
        Array(LeaveGroupResponseMember), since=3, about="One for each member of the request."
    )


@wire
class LeaveGroupRequestMember(Struct):
    """One member that leaves."""

    member_id: str = f(
        String, since=3, about='Id of the member; "" to name a static member by its static id.'
    )
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="The static id, or null."
    )
    reason: str | None = f(
        String, since=5, nullable_since=5, default=None, about="Why it leaves, or null."
    )


@wire
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """Leave a group: ``member_id`` until v2, ``members`` from v3."""

    api_key = ApiKey.LEAVE_GROUP
    valid_versions = (0, 5)
    flexible_from = 4

    group_id: str = f(String, about="The group.")
    member_id: str = f(String, until=2, about="Id of the member.")
    members: Sequence[LeaveGroupRequestMember] = f(
        Array(LeaveGroupRequestMember), since=3, about="Who leaves."
    )
