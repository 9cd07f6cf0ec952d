"""ApiVersions (key 18): which versions of which APIs a broker serves.

* v3 is flexible in its body only: the answer's header never has tagged fields, so that a client
  can read it before it knows the broker (KIP-511). The request names the client's software
* v4 may list features whose lowest version is 0
* an unknown version is answered with UNSUPPORTED_VERSION in the form of v0
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class ApiVersionsResponseKey(Struct):
    """The versions of one API, inclusive."""

    api_key: int = f(Int16, about="Number of the API.")
    min_version: int = f(Int16, about="Lowest version served.")
    max_version: int = f(Int16, about="Highest version served.")


@wire
class ApiVersionsResponseSupportedFeature(Struct):
    """A feature the broker could run."""

    name: str = f(String, since=3, about="Name of the feature.")
    min_version: int = f(Int16, since=3, about="Lowest version of it.")
    max_version: int = f(Int16, since=3, about="Highest version of it.")


@wire
class ApiVersionsResponseFinalizedFeature(Struct):
    """A feature the cluster has settled on."""

    name: str = f(String, since=3, about="Name of the feature.")
    max_version_level: int = f(Int16, since=3, about="Highest level in use.")
    min_version_level: int = f(Int16, since=3, about="Lowest level in use.")


@wire
class ApiVersionsResponse(Message):
    """What the broker serves."""

    api_key = ApiKey.API_VERSIONS
    valid_versions = (0, 4)
    flexible_from = 3

    error_code: int = f(Int16, about="0, or UNSUPPORTED_VERSION.")
    api_keys: Sequence[ApiVersionsResponseKey] = f(
        Array(ApiVersionsResponseKey), about="One for each API."
    )
    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    supported_features: Sequence[ApiVersionsResponseSupportedFeature] = f(
        Array(ApiVersionsResponseSupportedFeature), since=3, tag=0, about="What it could run."
    )
    finalized_features_epoch: int = f(
        Int64, since=3, tag=1, default=-1, about="Epoch of the finalized features, -1 unknown."
    )
    finalized_features: Sequence[ApiVersionsResponseFinalizedFeature] = f(
        Array(ApiVersionsResponseFinalizedFeature), since=3, tag=2, about="What is in use."
    )
    zk_migration_ready: bool = f(
        Bool, since=3, tag=3, about="Whether a KRaft controller is ready to take over."
    )


@wire
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """Ask for the versions; the first request on every connection."""

    api_key = ApiKey.API_VERSIONS
    valid_versions = (0, 4)
    flexible_from = 3

    client_software_name: str = f(String, since=3, about="Name of the client's library.")
    client_software_version: str = f(String, since=3, about="Version of it.")
