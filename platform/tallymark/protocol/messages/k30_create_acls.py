"""CreateAcls (key 30): add access-control entries (KIP-140).

* v1 adds patterns (KIP-290), v2 is flexible, v3 adds resources of type user
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int8,
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
class CreateAclsResponseResult(Struct):
    """What became of one entry."""

    error_code: int = f(Int16, about="0, or why it was not added.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class CreateAclsResponse(Message):
    """What became of them, in the order of the request."""

    api_key = ApiKey.CREATE_ACLS
    valid_versions = (1, 3)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[CreateAclsResponseResult] = f(
        Array(CreateAclsResponseResult), about="One for each entry."
    )


@wire
class CreateAclsRequestCreation(Struct):
    """One entry."""

    resource_type: int = f(Int8, about="2 topic, 3 group, 4 cluster, 5 transactional id.")
    resource_name: str = f(String, about="Its name, or the prefix of names.")
    resource_pattern_type: int = f(Int8, since=1, default=3, about="3 literal, 4 prefixed.")
    principal: str = f(String, about='Whom it is about: "User:name".')
    host: str = f(String, about='From where, or "*".')
    operation: int = f(Int8, about="What is done, 2 for everything.")
    permission_type: int = f(Int8, about="2 deny, 3 allow.")


@wire
class CreateAclsRequest(Request[CreateAclsResponse]):
    """Add entries."""

    api_key = ApiKey.CREATE_ACLS
    valid_versions = (1, 3)
    flexible_from = 2

    creations: Sequence[CreateAclsRequestCreation] = f(
        Array(CreateAclsRequestCreation), about="The entries."
    )
