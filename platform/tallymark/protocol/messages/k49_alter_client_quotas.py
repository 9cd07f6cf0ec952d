"""AlterClientQuotas (key 49): set and remove quotas (KIP-546).

* v1 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Float64,
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
class AlterClientQuotasResponseEntity(Struct):
    """One part of the entity's name."""

    entity_type: str = f(String, about='"user", "client-id" or "ip".')
    entity_name: str | None = f(
        String, nullable_since=0, default=None, about="Its name, or null for the default."
    )


@wire
class AlterClientQuotasResponseEntry(Struct):
    """What became of one entity's quotas."""

    error_code: int = f(Int16, about="0, or why they were not changed.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    entity: Sequence[AlterClientQuotasResponseEntity] = f(
        Array(AlterClientQuotasResponseEntity), about="Whom they hold for."
    )


@wire
class AlterClientQuotasResponse(Message):
    """What became of the changes."""

    api_key = ApiKey.ALTER_CLIENT_QUOTAS
    valid_versions = (0, 1)
    flexible_from = 1

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    entries: Sequence[AlterClientQuotasResponseEntry] = f(
        Array(AlterClientQuotasResponseEntry), about="One for each entity of the request."
    )


@wire
class AlterClientQuotasRequestEntity(Struct):
    """One part of the entity's name."""

    entity_type: str = f(String, about='"user", "client-id" or "ip".')
    entity_name: str | None = f(
        String, nullable_since=0, default=None, about="Its name, or null for the default."
    )


@wire
class AlterClientQuotasRequestOp(Struct):
    """One change."""

    key: str = f(String, about="Name of the quota.")
    value: float = f(Float64, about="How much is allowed.")
    remove: bool = f(Bool, about="Whether to remove the quota instead.")


@wire
class AlterClientQuotasRequestEntry(Struct):
    """The changes for one entity."""

    entity: Sequence[AlterClientQuotasRequestEntity] = f(
        Array(AlterClientQuotasRequestEntity), about="Whom they hold for."
    )
    ops: Sequence[AlterClientQuotasRequestOp] = f(
        Array(AlterClientQuotasRequestOp), about="The changes."
    )


@wire
class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """Change quotas."""

    api_key = ApiKey.ALTER_CLIENT_QUOTAS
    valid_versions = (0, 1)
    flexible_from = 1

    entries: Sequence[AlterClientQuotasRequestEntry] = f(
        Array(AlterClientQuotasRequestEntry), about="What to change."
    )
    validate_only: bool = f(Bool, about="Whether to check only and change nothing.")
