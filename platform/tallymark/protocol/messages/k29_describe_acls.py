"""DescribeAcls (key 29): the access-control entries that a filter matches (KIP-140).

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
class DescribeAclsResponseAcl(Struct):
    """One entry."""

    principal: str = f(String, about='Whom it is about: "User:name".')
    host: str = f(String, about='From where, or "*".')
    operation: int = f(Int8, about="What is done, 2 for everything.")
    permission_type: int = f(Int8, about="2 deny, 3 allow.")


@wire
class DescribeAclsResponseResource(Struct):
    """The entries of one resource."""

    resource_type: int = f(Int8, about="2 topic, 3 group, 4 cluster, 5 transactional id.")
    resource_name: str = f(String, about="Its name, or the prefix of names.")
    pattern_type: int = f(Int8, since=1, default=3, about="3 literal, 4 prefixed.")
    acls: Sequence[DescribeAclsResponseAcl] = f(
        Array(DescribeAclsResponseAcl), about="Its entries."
    )


@wire
class DescribeAclsResponse(Message):
    """The entries, by resource."""

    api_key = ApiKey.DESCRIBE_ACLS
    valid_versions = (1, 3)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no list.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    resources: Sequence[DescribeAclsResponseResource] = f(
        Array(DescribeAclsResponseResource), about="One for each resource."
    )


@wire
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """The filter; a null string or 1 (any) matches everything."""

    api_key = ApiKey.DESCRIBE_ACLS
    valid_versions = (1, 3)
    flexible_from = 2

    resource_type_filter: int = f(Int8, about="Type of the resource, 1 for any.")
    resource_name_filter: str | None = f(
        String, nullable_since=0, default=None, about="Name of the resource, or null."
    )
    pattern_type_filter: int = f(
        Int8,
        since=1,
        default=3,
        about="1 any, 2 all that apply to the name, 3 literal, 4 prefixed.",
    )
    principal_filter: str | None = f(
        String, nullable_since=0, default=None, about="The principal, or null."
    )
    host_filter: str | None = f(String, nullable_since=0, default=None, about="The host, or null.")
    operation: int = f(Int8, about="The operation, 1 for any.")
    permission_type: int = f(Int8, about="1 any, 2 deny, 3 allow.")
