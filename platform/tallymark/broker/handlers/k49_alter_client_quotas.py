"""k49 AlterClientQuotas: set and remove quotas of users and client ids (KIP-546).

Served 0-1; v1 is flexible. Kept: needs ALTER_CONFIGS on the cluster; every entity succeeds or fails
by itself; ``validate_only`` changes nothing. Simplified: ``producer_byte_rate`` and
``consumer_byte_rate`` of one user or one client id; anything else is INVALID_REQUEST.
"""

from __future__ import annotations

from functools import partial

from tallymark.broker.authorizer import CLUSTER_NAME, Operation, ResourceType, require
from tallymark.broker.handlers import Call, register
from tallymark.broker.quotas_filter import USER, entity, value
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)


async def handle(
    state: BrokerState, request: AlterClientQuotasRequest, call: Call
) -> AlterClientQuotasResponse:
    """Entity after entity."""
    return AlterClientQuotasResponse(
        entries=[
            await _alter(state, entry, call, request.validate_only) for entry in request.entries
        ]
    )


async def _alter(
    state: BrokerState, entry: AlterClientQuotasRequestEntry, call: Call, validate_only: bool
) -> AlterClientQuotasResponseEntry:
    told = [
        AlterClientQuotasResponseEntity(entity_type=part.entity_type, entity_name=part.entity_name)
        for part in entry.entity
    ]
    who, cluster = call.connection, ResourceType.CLUSTER
    security = state.security
    try:
        require(state.authorizer, who, Operation.ALTER_CONFIGS, cluster, CLUSTER_NAME)
        kind, name = entity([(part.entity_type, part.entity_name) for part in entry.entity])
        change = {op.key: value(op.key, op.value, op.remove) for op in entry.ops}
        store = security.store
        alter = store.alter_user if kind == USER else store.alter_client
        if not validate_only:
            await security.change(partial(alter, name, change))
    except KafkaError as error:
        return AlterClientQuotasResponseEntry(
            error_code=error.code, error_message=str(error), entity=told
        )
    return AlterClientQuotasResponseEntry(entity=told)


register(AlterClientQuotasRequest, handle)
