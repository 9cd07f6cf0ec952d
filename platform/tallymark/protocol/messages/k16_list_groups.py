"""ListGroups (key 16): the groups that this broker coordinates. Ask every broker for all of them.

* v3 is flexible, v4 has states and filters by them (KIP-518), v5 the same for types (KIP-848)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import Array, Int16, Int32, Message, Request, String, Struct, f, wire


@wire
class ListGroupsResponseGroup(Struct):
    """One group."""

    group_id: str = f(String, about="The group.")
    protocol_type: str = f(String, about='What the group is for, or "".')
    group_state: str = f(String, since=4, about="Its state, as DescribeGroups tells it.")
    group_type: str = f(String, since=5, about='"classic", or the newer kind it is.')


@wire
class ListGroupsResponse(Message):
    """The groups of this broker."""

    api_key = ApiKey.LIST_GROUPS
    valid_versions = (0, 5)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no list.")
    groups: Sequence[ListGroupsResponseGroup] = f(
        Array(ListGroupsResponseGroup), about="The groups."
    )


@wire
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Ask for groups."""

    api_key = ApiKey.LIST_GROUPS
    valid_versions = (0, 5)
    flexible_from = 3

    states_filter: Sequence[str] = f(
        Array(String), since=4, about="Only groups in these states; empty for all."
    )
    types_filter: Sequence[str] = f(
        Array(String), since=5, about="Only groups of these types; empty for all."
    )
