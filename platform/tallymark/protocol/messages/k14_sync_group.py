"""SyncGroup (key 14): the leader hands in the assignment, every member gets its part.

* v3 adds static members (KIP-345), v4 is flexible, v5 repeats the protocol (KIP-559)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
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
class SyncGroupResponse(Message):
    """The member's part."""

    api_key = ApiKey.SYNC_GROUP
    valid_versions = (0, 5)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no assignment.")
    protocol_type: str | None = f(
        String, since=5, nullable_since=5, default=None, about="Type that the group runs, or null."
    )
    protocol_name: str | None = f(
        String, since=5, nullable_since=5, default=None, about="Protocol that was chosen, or null."
    )
    assignment: Buffer = f(Bytes, about="The leader's words for this member.")


@wire
class SyncGroupRequestAssignment(Struct):
    """The part of one member."""

    member_id: str = f(String, about="Id of the member.")
    assignment: Buffer = f(Bytes, about="Its part.")


@wire
class SyncGroupRequest(Request[SyncGroupResponse]):
    """Ask for the assignment; the leader brings it."""

    api_key = ApiKey.SYNC_GROUP
    valid_versions = (0, 5)
    flexible_from = 4

    group_id: str = f(String, about="The group.")
    generation_id: int = f(Int32, about="Generation the member is in.")
    member_id: str = f(String, about="Id of the member.")
    group_instance_id: str | None = f(
        String, since=3, nullable_since=3, default=None, about="The static id, or null."
    )
    protocol_type: str | None = f(
        String,
        since=5,
        nullable_since=5,
        default=None,
        about="Type the member believes in, or null.",
    )
    protocol_name: str | None = f(
        String,
        since=5,
        nullable_since=5,
        default=None,
        about="Protocol the member believes in, or null.",
    )
    assignments: Sequence[SyncGroupRequestAssignment] = f(
        Array(SyncGroupRequestAssignment), about="Everybody's part, from the leader; else empty."
    )
