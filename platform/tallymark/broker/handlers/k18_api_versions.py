"""k18 ApiVersions: which versions of which APIs this broker serves.

Served 0-4.

* v0 to v2 the versions
* v3 flexible in its body only, the header never has tagged fields (KIP-511); the client's software
  is named and its name checked; the features that this broker supports, and the levels in force
  (KIP-584)
* v4 also supported features whose lowest level is 0: older clients fail on them (KAFKA-17011)

A version above 4 is answered with UNSUPPORTED_VERSION in the form of v0, with the versions of
ApiVersions itself, so that the client can ask again (KIP-511).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseKey,
    ApiVersionsResponseSupportedFeature,
)
from tallymark.replication.features import served

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
_FIRST_WITH_SOFTWARE: Final = 3
_FIRST_WITH_FEATURES: Final = 3


def handle(state: BrokerState, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """The same response for all clients, logged in or not."""
    if call.version >= _FIRST_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=CODES["INVALID_REQUEST"])
    if call.version < _FIRST_WITH_FEATURES:
        return ApiVersionsResponse(api_keys=_apis())
    image = state.image
    me = image.brokers.get(state.settings.node_id)
    told = served(me.features if me is not None else {}, image.features, call.version)
    return ApiVersionsResponse(
        api_keys=_apis(),
        supported_features=[
            ApiVersionsResponseSupportedFeature(name, levels.lowest, levels.highest)
            for name, levels in told.supported.items()
        ],
        finalized_features_epoch=told.epoch,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(
                name, max_version_level=level, min_version_level=level
            )
            for name, level in told.finalized.items()
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    """The answer to a version that is not served; to be encoded as version 0."""
    return ApiVersionsResponse(
        error_code=CODES["UNSUPPORTED_VERSION"], api_keys=[_range(ApiKey.API_VERSIONS)]
    )


@cache
def _apis() -> tuple[ApiVersionsResponseKey, ...]:
    return tuple(_range(key) for key in sorted(ADVERTISED))


def _range(key: ApiKey) -> ApiVersionsResponseKey:
    low, high = ADVERTISED[key]
    return ApiVersionsResponseKey(api_key=key, min_version=low, max_version=high)


register(ApiVersionsRequest, handle)
