"""k33 AlterConfigs: the older form, which gives a topic these configs and no others.

Served 0-2.

* v2 flexible

Kept: each resource by itself; what a topic had and the request does not name falls back to the
broker's; in force when the answer comes. A broker's settings change with a restart only:
INVALID_REQUEST.
"""

from __future__ import annotations

from tallymark.broker.config_alter import replaced
from tallymark.broker.config_changes import Alteration, alter
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)


async def handle(
    state: BrokerState, request: AlterConfigsRequest, call: Call
) -> AlterConfigsResponse:
    """One after the other, in the order of the request."""
    wanted = [_alteration(state, resource) for resource in request.resources]
    outcomes = await alter(state, call, wanted, request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponseResource(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, (code, message) in zip(request.resources, outcomes, strict=True)
        ]
    )


def _alteration(state: BrokerState, resource: AlterConfigsRequestResource) -> Alteration:
    configs = [(config.name, config.value) for config in resource.configs]
    return Alteration(
        resource.resource_type,
        resource.resource_name,
        [name for name, _ in configs],
        lambda _: replaced(state.settings, configs),
    )


register(AlterConfigsRequest, handle)
