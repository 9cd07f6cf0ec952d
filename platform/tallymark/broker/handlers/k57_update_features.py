"""k57 UpdateFeatures: the levels of a cluster's features change (KIP-584).

Served 0-2.

* v1 the kind of upgrade, and asking without changing; v2 one error for all in the answer

Kept: needs ALTER on the cluster; all or nothing; the answer comes when this broker's image has the
levels, or REQUEST_TIMED_OUT after the client's timeout, while the change continues. Any broker
serves it. A level rises if every registered broker supports it (else INVALID_UPDATE_VERSION, which
names the others), also one that registers at the same moment.

Simplified: no level is ever lowered, since what it allows may be in use.
"""

from __future__ import annotations

from collections import Counter
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
    UpdateFeaturesResponseResult,
)

_UPGRADE: Final = 1
_DOWNGRADES: Final = (2, 3)
_LAST_WITH_RESULTS: Final = 1
_WRONG: Final = CODES["INVALID_UPDATE_VERSION"]


async def handle(
    state: BrokerState, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse:
    """One transaction for all features."""
    asked = request.feature_updates
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.ALTER, cluster, CLUSTER_NAME)
        named = Counter(each.feature for each in asked)
        for each in asked:
            _check(each, named, state.image.features.level(each.feature))
        if asked:
            await state.timed_changes.within(
                request.timeout_ms,
                state.cluster.update_features(
                    {each.feature: each.max_version_level for each in asked},
                    request.validate_only,
                ),
            )
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    if call.version > _LAST_WITH_RESULTS:
        return UpdateFeaturesResponse()
    results = [UpdateFeaturesResponseResult(feature=each.feature) for each in asked]
    return UpdateFeaturesResponse(results=results)


def _check(asked: UpdateFeaturesRequestFeature, named: Counter[str], now: int) -> None:
    """What can be said without the other brokers. ``now``: the level in force."""
    level, name = asked.max_version_level, repr(asked.feature[:80])
    what = f"level {level} of the feature {name}"
    if named[asked.feature] > 1:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{name} is named twice")
    if level < 0:
        raise KafkaError(_WRONG, f"{what}: a level is at least 0")
    if asked.upgrade_type not in (_UPGRADE, *_DOWNGRADES):
        raise KafkaError(_WRONG, f"{what}: upgrade type {asked.upgrade_type} is unknown")
    if asked.upgrade_type in _DOWNGRADES and level > now:
        raise KafkaError(_WRONG, f"{what}: it is at {now}, so this is no downgrade")


register(UpdateFeaturesRequest, handle)
