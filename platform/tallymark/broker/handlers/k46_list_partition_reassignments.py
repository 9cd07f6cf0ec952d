"""k46 ListPartitionReassignments: partitions that are on their way to other brokers (KIP-455).

Served 0.

Kept: needs DESCRIBE on the cluster. A partition has one replica and stays where it is, so nothing
is ever under way. The answer is always empty, as in Kafka without reassignments.
"""

from __future__ import annotations

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    state: BrokerState, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    """At once."""
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.DESCRIBE, cluster, CLUSTER_NAME)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=str(error))
    return ListPartitionReassignmentsResponse()


register(ListPartitionReassignmentsRequest, handle)
