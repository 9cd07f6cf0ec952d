"""k49 AlterClientQuotas: set and remove quotas of users, client ids, and both together (KIP-546).

Served 0-1; v1 is flexible. Kept: needs ALTER_CONFIGS on the cluster; every entity succeeds or fails
by itself; ``validate_only`` changes nothing. Simplified: ``producer_byte_rate`` and
``consumer_byte_rate`` of a user, a client id, or both together; anything else is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.security.quotas import Place
from tallymark.broker.security.quotas_filter import entity, value
from tallymark.broker.security.store import SecurityStore
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
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
        place = entity([(part.entity_type, part.entity_name) for part in entry.entity])
        change = {op.key: value(op.key, op.value, op.remove) for op in entry.ops}
        if not validate_only:
            await security.change(partial(_store, security.store, place, change))
    except KafkaError as error:
        return AlterClientQuotasResponseEntry(
            error_code=error.code, error_message=str(error), entity=told
        )
    return AlterClientQuotasResponseEntry(entity=told)


def _store(store: SecurityStore, place: Place, change: Mapping[str, str | None]) -> None:
    user, client = place
    if user is not None and client is not None:
        store.alter_user_client(user, client, change)
    elif user is not None:
        store.alter_user(user, change)
    elif client is not None:
        store.alter_client(client, change)


register(AlterClientQuotasRequest, handle)
