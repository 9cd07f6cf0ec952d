"""DescribeConfigs (key 32): how topics and brokers are configured, and where each value is from.

* v1 has the source of a value and its synonyms (KIP-226)
* v3 adds types and documentation (KIP-569), v4 is flexible
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
class DescribeConfigsResponseSynonym(Struct):
    """A place the value could come from."""

    name: str = f(String, since=1, about="Name it has there.")
    value: str | None = f(
        String, since=1, nullable_since=1, about="Value it has there; null for a secret."
    )
    source: int = f(Int8, since=1, about="Which place, numbered like ``config_source``.")


@wire
class DescribeConfigsResponseConfig(Struct):
    """One configuration."""

    name: str = f(String, about="Name of the configuration.")
    value: str | None = f(String, nullable_since=0, about="Its value; null for a secret.")
    read_only: bool = f(Bool, about="Whether it cannot be changed.")
    config_source: int = f(
        Int8,
        since=1,
        default=-1,
        about="1 topic, 2 broker at run time, 3 all brokers at run time, 4 settings, 5 default.",
    )
    is_sensitive: bool = f(Bool, about="Whether the value is a secret.")
    synonyms: Sequence[DescribeConfigsResponseSynonym] = f(
        Array(DescribeConfigsResponseSynonym),
        since=1,
        about="Where the value could come from, the strongest first.",
    )
    config_type: int = f(
        Int8,
        since=3,
        about="1 bool, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.",
    )
    documentation: str | None = f(
        String, since=3, nullable_since=3, default=None, about="What it does, or null."
    )


@wire
class DescribeConfigsResponseResult(Struct):
    """The configuration of one resource."""

    error_code: int = f(Int16, about="0, or why it is not told.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")
    configs: Sequence[DescribeConfigsResponseConfig] = f(
        Array(DescribeConfigsResponseConfig), about="Its configuration."
    )


@wire
class DescribeConfigsResponse(Message):
    """The configurations."""

    api_key = ApiKey.DESCRIBE_CONFIGS
    valid_versions = (1, 4)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[DescribeConfigsResponseResult] = f(
        Array(DescribeConfigsResponseResult), about="One for each resource of the request."
    )


@wire
class DescribeConfigsRequestResource(Struct):
    """One resource."""

    resource_type: int = f(Int8, about="2 topic, 4 broker.")
    resource_name: str = f(String, about="Name of the topic, or id of the broker.")
    configuration_keys: Sequence[str] | None = f(
        Array(String),
        nullable_since=0,
        default=None,
        about="Names of configurations, or null for all.",
    )


@wire
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Ask for configurations."""

    api_key = ApiKey.DESCRIBE_CONFIGS
    valid_versions = (1, 4)
    flexible_from = 4

    resources: Sequence[DescribeConfigsRequestResource] = f(
        Array(DescribeConfigsRequestResource), about="The resources."
    )
    include_synonyms: bool = f(Bool, since=1, about="Whether to tell the synonyms.")
    include_documentation: bool = f(Bool, since=3, about="Whether to tell the documentation.")
