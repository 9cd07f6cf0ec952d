"""ListConfigResources (key 74): which resources have configs (KIP-1142).

* v0 is of client metrics only (KIP-714)
* v1 names the types asked for, and of each resource the type
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
class ListConfigResourcesResponseResource(Struct):
    """One resource."""

    resource_name: str = f(String, about="Its name.")
    resource_type: int = f(Int8, since=1, default=16, about="Its type: 2 topic, 4 broker, ...")


@wire
class ListConfigResourcesResponse(Message):
    """The resources."""

    api_key = ApiKey.LIST_CONFIG_RESOURCES
    valid_versions = (0, 1)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing is told.")
    config_resources: Sequence[ListConfigResourcesResponseResource] = f(
        Array(ListConfigResourcesResponseResource), about="One for each resource."
    )


@wire
class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """Ask for resources."""

    api_key = ApiKey.LIST_CONFIG_RESOURCES
    valid_versions = (0, 1)
    flexible_from = 0

    resource_types: Sequence[int] = f(Array(Int8), since=1, about="The types; none means all.")
