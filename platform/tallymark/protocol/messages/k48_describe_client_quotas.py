"""DescribeClientQuotas (key 48): the quotas that a filter matches (KIP-546).

* v1 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Float64,
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
class DescribeClientQuotasResponseEntity(Struct):
    """One part of the entity's name."""

    entity_type: str = f(String, about='"user", "client-id" or "ip".')
    entity_name: str | None = f(
        String, nullable_since=0, default=None, about="Its name, or null for the default."
    )


@wire
class DescribeClientQuotasResponseValue(Struct):
    """One quota."""

    key: str = f(String, about="Name of the quota.")
    value: float = f(Float64, about="How much is allowed.")


@wire
class DescribeClientQuotasResponseEntry(Struct):
    """The quotas of one entity."""

    entity: Sequence[DescribeClientQuotasResponseEntity] = f(
        Array(DescribeClientQuotasResponseEntity), about="Whom they hold for."
    )
    values: Sequence[DescribeClientQuotasResponseValue] = f(
        Array(DescribeClientQuotasResponseValue), about="Its quotas."
    )


@wire
class DescribeClientQuotasResponse(Message):
    """The quotas."""

    api_key = ApiKey.DESCRIBE_CLIENT_QUOTAS
    valid_versions = (0, 1)
    flexible_from = 1

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no list.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    entries: Sequence[DescribeClientQuotasResponseEntry] | None = f(
        Array(DescribeClientQuotasResponseEntry),
        nullable_since=0,
        default=None,
        about="One for each entity; null with an error.",
    )


@wire
class DescribeClientQuotasRequestComponent(Struct):
    """What one part of the name must be."""

    entity_type: str = f(String, about='"user", "client-id" or "ip".')
    match_type: int = f(Int8, about="0 the name given, 1 the default, 2 any name.")
    match: str | None = f(String, nullable_since=0, default=None, about="The name, or null.")


@wire
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """The filter: every component must match."""

    api_key = ApiKey.DESCRIBE_CLIENT_QUOTAS
    valid_versions = (0, 1)
    flexible_from = 1

    components: Sequence[DescribeClientQuotasRequestComponent] = f(
        Array(DescribeClientQuotasRequestComponent), about="The components."
    )
    strict: bool = f(Bool, about="Whether entities with further parts are left out.")
