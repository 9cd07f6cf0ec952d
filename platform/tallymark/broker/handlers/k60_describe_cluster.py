"""k60 DescribeCluster: the brokers, without any topic (KIP-700).

Served 0-2.

* v1 which type of endpoint (KIP-919): only brokers are there to be described
* v2 fenced brokers (KIP-1073): there are none

Kept: addresses are those of the listener that the client is connected to. The operations that it
may do on the cluster need DESCRIBE.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import operations_bits
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, TABLE
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)
from tallymark.protocol.messages.k03_metadata import OPERATIONS_UNKNOWN

_BROKERS, _CONTROLLERS = 1, 2


def handle(
    state: BrokerState, request: DescribeClusterRequest, call: Call
) -> DescribeClusterResponse:
    """At once."""
    if request.endpoint_type != _BROKERS:
        mismatched = request.endpoint_type == _CONTROLLERS
        code = CODES["MISMATCHED_ENDPOINT_TYPE" if mismatched else "UNSUPPORTED_ENDPOINT_TYPE"]
        return DescribeClusterResponse(
            error_code=code, error_message=TABLE[code].text, cluster_id="", brokers=[]
        )
    image = state.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterResponseBroker(
                broker_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack or None,
            )
            for _, broker in sorted(image.brokers.items())
            if (endpoint := broker.at(call.connection.listener)) is not None
        ],
        cluster_authorized_operations=(
            _operations(state, call)
            if request.include_cluster_authorized_operations
            else OPERATIONS_UNKNOWN
        ),
    )


def _operations(state: BrokerState, call: Call) -> int:
    who, kind = call.connection, ResourceType.CLUSTER
    if not state.authorizer.may(who, Operation.DESCRIBE, kind, CLUSTER_NAME, quiet=True):
        return 0
    return operations_bits(state.authorizer, who, kind, CLUSTER_NAME)


register(DescribeClusterRequest, handle)
