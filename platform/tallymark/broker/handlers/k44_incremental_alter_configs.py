"""k44 IncrementalAlterConfigs: set, delete, append to and subtract from single configs (KIP-339).

Served 0-1.

* v1 flexible

Kept: each resource by itself; in force when the answer comes; ``validate_only`` changes nothing. A
broker's settings change with a restart only: INVALID_REQUEST. Simplified: changes of one topic
that are sent to two brokers at the same moment may overwrite each other.
"""

from __future__ import annotations

from tallymark.broker.config_alter import changed
from tallymark.broker.config_changes import Alteration, alter
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)


async def handle(
    state: BrokerState, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    """One after the other, in the order of the request."""
    wanted = [_alteration(state, resource) for resource in request.resources]
    outcomes = await alter(state, call, wanted, request.validate_only)
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponseResource(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, (code, message) in zip(request.resources, outcomes, strict=True)
        ]
    )


def _alteration(state: BrokerState, resource: IncrementalAlterConfigsRequestResource) -> Alteration:
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    return Alteration(
        resource.resource_type,
        resource.resource_name,
        [name for name, _, _ in changes],
        lambda current: changed(state.settings, current, changes),
    )


register(IncrementalAlterConfigsRequest, handle)
