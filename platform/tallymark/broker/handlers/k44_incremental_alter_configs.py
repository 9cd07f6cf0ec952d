"""k44 IncrementalAlterConfigs: set, delete, append to and subtract from single configs (KIP-339).

Served 0-1.

* v1 flexible

Kept: each resource by itself (topics, this broker, all brokers, this broker's loggers, groups); in
force here when the answer comes; ``validate_only`` changes nothing. A broker's settings that need a
restart are INVALID_REQUEST. Simplified: changes of one topic that are sent to two brokers at the
same moment may overwrite each other; configs of groups are kept and change nothing.
"""

from __future__ import annotations

from tallymark.broker.requests.alter_configs import Alteration, alter
from tallymark.broker.requests.registry import Call, register
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
    wanted = [_alteration(resource) for resource in request.resources]
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


def _alteration(resource: IncrementalAlterConfigsRequestResource) -> Alteration:
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes, replaces=False)


register(IncrementalAlterConfigsRequest, handle)
