"""k33 AlterConfigs: the older form, which gives a resource these configs and no others.

Served 0-2.

* v2 flexible

Kept: each resource by itself (topics, this broker, all brokers, groups); configs that the request
does not name are reset to their defaults; the change is in force when the answer comes.
"""

from __future__ import annotations

from tallymark.broker.requests.alter_configs import Alteration, alter
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.settings.config_alter import AlterOp
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
    wanted = [_alteration(resource) for resource in request.resources]
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


def _alteration(resource: AlterConfigsRequestResource) -> Alteration:
    changes = [(config.name, int(AlterOp.SET), config.value) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes, replaces=True)


register(AlterConfigsRequest, handle)
