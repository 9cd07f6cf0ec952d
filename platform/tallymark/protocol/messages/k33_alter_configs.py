"""AlterConfigs (key 33): replace the whole configuration of a topic or broker.

What is not named falls back to its default, so two writers undo each other:
IncrementalAlterConfigs (key 44) came for that reason (KIP-339).

* v2 is flexible
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
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
class AlterConfigsResponseResource(Struct):
    """What became of one resource."""

    error_code: int = f(Int16, about="0, or why it was not changed.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")


@wire
class AlterConfigsResponse(Message):
    """What became of the resources."""

    api_key = ApiKey.ALTER_CONFIGS
    valid_versions = (0, 2)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    responses: Sequence[AlterConfigsResponseResource] = f(
        Array(AlterConfigsResponseResource), about="One for each resource of the request."
    )


@wire
class AlterConfigsRequestConfig(Struct):
    """One configuration to set."""

    name: str = f(String, about="Name of the configuration.")
    value: str | None = f(String, nullable_since=0, about="Its value.")


@wire
class AlterConfigsRequestResource(Struct):
    """One resource."""

    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")
    configs: Sequence[AlterConfigsRequestConfig] = f(
        Array(AlterConfigsRequestConfig), about="All it shall have."
    )


@wire
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Replace configurations."""

    api_key = ApiKey.ALTER_CONFIGS
    valid_versions = (0, 2)
    flexible_from = 2

    resources: Sequence[AlterConfigsRequestResource] = f(
        Array(AlterConfigsRequestResource), about="The resources."
    )
    validate_only: bool = f(Bool, about="Whether to check only and change nothing.")
