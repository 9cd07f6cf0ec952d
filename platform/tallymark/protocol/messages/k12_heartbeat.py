"""Heartbeat (key 12): a member is alive; the answer says whether a rebalance has begun.

* v3 adds static members (KIP-345), v4 is flexible
"""

from __future__ import annotations

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Int16, Int32, Message, Request, String, f, wire


@wire
class HeartbeatResponse(Message):
    """What the coordinator says to it."""

    api_key = ApiKey.HEARTBEAT
    valid_versions = (0, 4)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or what the member has to do.")


@wire
class HeartbeatRequest(Request[HeartbeatResponse]):
    """Stay in a group."""

    api_key = ApiKey.HEARTBEAT
    valid_versions = (0, 4)
    flexible_from = 4

    group_id: str = f(String, about="The group.")
    generation_id: int = f(Int32, about="Generation the member is in.")
    member_id: str = f(String, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="The static id, or null."
    )
