"""k57 UpdateFeatures: the levels of a cluster's features change (KIP-584).

Served 0-2.

* v1 the kind of upgrade, and asking without changing; v2 one error for all in the answer

Kept: needs ALTER on the cluster; all or nothing. This cluster has no features (see ApiVersions), so
every level of every feature is INVALID_UPDATE_VERSION; a request without any does nothing.
"""

from __future__ import annotations

from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
    UpdateFeaturesResponse,
)

_UPGRADE_TYPES: Final = (1, 2, 3)


def handle(
    state: BrokerState, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse:
    """At once."""
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.ALTER, cluster, CLUSTER_NAME)
        if request.feature_updates:
            raise KafkaError(
                CODES["INVALID_UPDATE_VERSION"],
                f"nothing was changed: {_why(request.feature_updates[0])}",
            )
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    return UpdateFeaturesResponse()


def _why(asked: UpdateFeaturesRequestFeature) -> str:
    what = f"level {asked.max_version_level} of the feature {asked.feature[:80]!r}"
    if asked.max_version_level < 0:
        return f"{what}: a level is at least 0"
    if asked.upgrade_type not in _UPGRADE_TYPES:
        return f"{what}: upgrade type {asked.upgrade_type} is unknown"
    return f"{what}: this cluster has no such feature"


register(UpdateFeaturesRequest, handle)
