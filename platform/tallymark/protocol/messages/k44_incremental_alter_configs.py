"""IncrementalAlterConfigs (key 44): change single configurations of a topic or broker (KIP-339).

* v1 is flexible
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
class IncrementalAlterConfigsResponseResource(Struct):
    """What became of one resource."""

    error_code: int = f(Int16, about="0, or why it was not changed.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")


@wire
class IncrementalAlterConfigsResponse(Message):
    """What became of the resources."""

    api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    valid_versions = (0, 1)
    flexible_from = 1

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    responses: Sequence[IncrementalAlterConfigsResponseResource] = f(
        Array(IncrementalAlterConfigsResponseResource),
        about="One for each resource of the request.",
    )


@wire
class IncrementalAlterConfigsRequestConfig(Struct):
    """One change."""

    name: str = f(String, about="Name of the configuration.")
    config_operation: int = f(
        Int8, about="0 set, 1 delete, 2 append to a list, 3 subtract from a list."
    )
    value: str | None = f(String, nullable_since=0, about="The value; null to delete.")


@wire
class IncrementalAlterConfigsRequestResource(Struct):
    """One resource."""

    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")
    configs: Sequence[IncrementalAlterConfigsRequestConfig] = f(
        Array(IncrementalAlterConfigsRequestConfig), about="The changes."
    )


@wire
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Change configurations."""

    api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    valid_versions = (0, 1)
    flexible_from = 1

    resources: Sequence[IncrementalAlterConfigsRequestResource] = f(
        Array(IncrementalAlterConfigsRequestResource), about="The resources."
    )
    validate_only: bool = f(Bool, about="Whether to check only and change nothing.")
