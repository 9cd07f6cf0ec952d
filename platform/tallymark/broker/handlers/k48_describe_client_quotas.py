"""k48 DescribeClientQuotas: the quotas of users and client ids (KIP-546).

Served 0-1; v1 is flexible. Kept: needs DESCRIBE_CONFIGS on the cluster. Simplified: there are no
entities of a user together with a client id, and none of addresses: filters for them find nothing.
"""

from __future__ import annotations

from tallymark.broker.authorizer import CLUSTER_NAME, Operation, ResourceType, require
from tallymark.broker.handlers import Call, register
from tallymark.broker.quotas import rates_of
from tallymark.broker.quotas_filter import CLIENT, USER, matches
from tallymark.broker.security_store import DEFAULT_NAME
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.messages import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)


def handle(
    state: BrokerState, request: DescribeClientQuotasRequest, call: Call
) -> DescribeClientQuotasResponse:
    """From memory."""
    who, cluster = call.connection, ResourceType.CLUSTER
    wanted = [(part.entity_type, part.match_type, part.match) for part in request.components]
    records = state.security.records
    try:
        require(state.authorizer, who, Operation.DESCRIBE_CONFIGS, cluster, CLUSTER_NAME)
        entries = [
            _entry(kind, name, rates)
            for kind, held in ((USER, records.users), (CLIENT, records.clients))
            for name, values in sorted(held.items())
            if (rates := rates_of(values)) and matches(kind, name, wanted, request.strict)
        ]
        matches(
            USER, "", wanted, request.strict
        )  # a bad filter is told where there is nothing, too
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=str(error), entries=None
        )
    return DescribeClientQuotasResponse(entries=entries)


def _entry(kind: str, name: str, rates: dict[str, float]) -> DescribeClientQuotasResponseEntry:
    told = None if name == DEFAULT_NAME else name
    return DescribeClientQuotasResponseEntry(
        entity=[DescribeClientQuotasResponseEntity(entity_type=kind, entity_name=told)],
        values=[
            DescribeClientQuotasResponseValue(key=key, value=rate) for key, rate in rates.items()
        ],
    )


register(DescribeClientQuotasRequest, handle)
