"""What only brokers may do: requests with a replica id. Without the check anyone could read what is
not committed yet, or pretend to have copied it."""

from __future__ import annotations

from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.net.server.handler import Connection
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType


def require_cluster_action(state: BrokerState, connection: Connection) -> None:
    """Raise CLUSTER_AUTHORIZATION_FAILED unless ``connection`` may act as a broker: CLUSTER_ACTION
    on the cluster."""
    authorizer, cluster = state.authorizer, ResourceType.CLUSTER
    require(authorizer, connection, Operation.CLUSTER_ACTION, cluster, CLUSTER_NAME)


def require_describe(
    state: BrokerState, connection: Connection, replica_id: int, topic: str
) -> None:
    """:func:`require_cluster_action` of a request with a replica id, DESCRIBE on ``topic`` of all
    others."""
    if replica_id >= 0:
        return require_cluster_action(state, connection)
    return require(state.authorizer, connection, Operation.DESCRIBE, ResourceType.TOPIC, topic)
