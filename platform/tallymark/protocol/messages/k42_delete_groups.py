"""DeleteGroups (key 42): remove empty groups with their offsets (KIP-229).

* v2 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Array, Int16, Int32, Message, Request, String, Struct, f, wire


@wire
class DeleteGroupsResponseResult(Struct):
    """What became of one group."""

    group_id: str = f(String, about="The group.")
    error_code: int = f(Int16, about="0, or why it is still there.")


@wire
class DeleteGroupsResponse(Message):
    """What became of the groups."""

    api_key = ApiKey.DELETE_GROUPS
    valid_versions = (0, 2)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[DeleteGroupsResponseResult] = f(
        Array(DeleteGroupsResponseResult), about="One for each group of the request."
    )


@wire
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Delete groups."""

    api_key = ApiKey.DELETE_GROUPS
    valid_versions = (0, 2)
    flexible_from = 2

    groups_names: Sequence[str] = f(Array(String), about="The groups.")
