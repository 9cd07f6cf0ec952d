"""k74 ListConfigResources: which resources have configs (KIP-1142).

Served 0-1.

* v0 asks for client metrics only, of which there are none
* v1 names the types asked for, none means all; one that does not exist is UNSUPPORTED_VERSION

Kept: needs DESCRIBE_CONFIGS on the cluster. Topics and live brokers always have configs; each
broker has loggers; of groups those are listed that have configs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseResource,
)

_TOPIC, _BROKER, _LOGGERS, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_FIRST_WITH_TYPES: Final = 1


def handle(
    state: BrokerState, request: ListConfigResourcesRequest, call: Call
) -> ListConfigResourcesResponse:
    """From memory."""
    names = _names(state)
    try:
        require(
            state.authorizer,
            call.connection,
            Operation.DESCRIBE_CONFIGS,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
        )
        wanted = _wanted(request, call, names)
    except KafkaError as error:
        return ListConfigResourcesResponse(error_code=error.code)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponseResource(resource_name=name, resource_type=kind)
            for kind in wanted
            for name in names[kind]
        ]
    )


def _wanted(
    request: ListConfigResourcesRequest, call: Call, names: Mapping[int, Iterable[str]]
) -> list[int]:
    if call.version < _FIRST_WITH_TYPES:
        return [_CLIENT_METRICS]
    kinds = sorted(set(request.resource_types)) or sorted(names)
    unknown = [kind for kind in kinds if kind not in names]
    if unknown:
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"resource type {unknown[0]}")
    return kinds


def _names(state: BrokerState) -> Mapping[int, Iterable[str]]:
    brokers = [str(broker) for broker in sorted(state.image.brokers)]
    return {
        _TOPIC: sorted(state.image.topics),
        _BROKER: brokers,
        _LOGGERS: brokers,
        _CLIENT_METRICS: (),
        _GROUP: sorted(state.security.records.groups),
    }


register(ListConfigResourcesRequest, handle)
