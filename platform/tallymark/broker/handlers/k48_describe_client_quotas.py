"""k48 DescribeClientQuotas: the quotas of users, client ids, and both together (KIP-546).

Served 0-1; v1 is flexible. Kept: needs DESCRIBE_CONFIGS on the cluster. Simplified: there are
no quotas of addresses: a filter for them finds nothing.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.security.quotas import Place
from tallymark.broker.security.quotas_filter import CLIENT, USER, check_filter, matches
from tallymark.broker.settings.dynamic import DEFAULT_NAME
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
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
    rates = state.security.quotas.rates
    try:
        require(state.authorizer, who, Operation.DESCRIBE_CONFIGS, cluster, CLUSTER_NAME)
        check_filter(wanted)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=str(error), entries=None
        )
    places = sorted(rates, key=lambda place: (place[0] is None, place[0] or "", place[1] or ""))
    return DescribeClientQuotasResponse(
        entries=[
            _entry(place, rates[place])
            for place in places
            if matches(place, wanted, request.strict)
        ]
    )


def _entry(place: Place, rates: dict[str, float]) -> DescribeClientQuotasResponseEntry:
    return DescribeClientQuotasResponseEntry(
        entity=[
            DescribeClientQuotasResponseEntity(
                entity_type=kind, entity_name=None if name == DEFAULT_NAME else name
            )
            for kind, name in zip((USER, CLIENT), place, strict=True)
            if name is not None
        ],
        values=[
            DescribeClientQuotasResponseValue(key=key, value=rate) for key, rate in rates.items()
        ],
    )


register(DescribeClientQuotasRequest, handle)
