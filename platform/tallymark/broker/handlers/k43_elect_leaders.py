"""k43 ElectLeaders: give partitions the leader that they should have (KIP-183, KIP-460).

Served 0-2.

* v1 the type of election, preferred (0) or unclean (1), and a top-level error; v2 flexible

Kept: null means all partitions; the response then has only those that could not get a leader. A
partition has one replica: while its broker is there it leads, ELECTION_NOT_NEEDED. While it is
away no broker can lead it: PREFERRED_LEADER_NOT_AVAILABLE or (unclean)
ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import require
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, TABLE, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)

_PREFERRED, _UNCLEAN = 0, 1
_NOT_THERE: Final = {
    _PREFERRED: CODES["PREFERRED_LEADER_NOT_AVAILABLE"],
    _UNCLEAN: CODES["ELIGIBLE_LEADERS_NOT_AVAILABLE"],
}
_NOT_NEEDED: Final = CODES["ELECTION_NOT_NEEDED"]


async def handle(
    state: BrokerState, request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse:
    """Answer at once. If the request is refused, every partition has the error, as in Kafka."""
    try:
        cluster = ResourceType.CLUSTER
        require(state.authorizer, call.connection, Operation.ALTER, cluster, CLUSTER_NAME)
        if request.election_type not in _NOT_THERE:
            raise KafkaError(
                CODES["INVALID_REQUEST"], f"election type {request.election_type} is unknown"
            )
    except KafkaError as error:
        results = [
            _topic(asked.topic, ((index, error.code, str(error)) for index in asked.partitions))
            for asked in request.topic_partitions or ()
        ]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=results)
    results = []
    async for asked in in_turns(_asked(state, request)):
        outcomes = [
            (index, code, TABLE[code].text)
            for index in asked.partitions
            for code in (_election(state, asked.topic, index, request.election_type),)
            if request.topic_partitions is not None or code != _NOT_NEEDED
        ]
        if outcomes or request.topic_partitions is not None:
            results.append(_topic(asked.topic, outcomes))
    return ElectLeadersResponse(replica_election_results=results)


def _asked(state: BrokerState, request: ElectLeadersRequest) -> Iterable[ElectLeadersRequestTopic]:
    if request.topic_partitions is not None:
        return request.topic_partitions
    return [
        ElectLeadersRequestTopic(topic=topic.name, partitions=range(len(topic.partitions)))
        for _, topic in sorted(state.image.topics.items())
    ]


def _election(state: BrokerState, topic: str, index: int, kind: int) -> int:
    """The error code for one election."""
    known = state.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return CODES["UNKNOWN_TOPIC_OR_PARTITION"]
    there = state.image.leader_of(known.partitions[index]) >= 0
    offline = state.partitions.is_offline(topic, index)
    return _NOT_NEEDED if there and not offline else _NOT_THERE[kind]


def _topic(topic: str, outcomes: Iterable[tuple[int, int, str]]) -> ElectLeadersResponseTopic:
    return ElectLeadersResponseTopic(
        topic=topic,
        partition_result=[
            ElectLeadersResponsePartition(partition_id=index, error_code=code, error_message=text)
            for index, code, text in outcomes
        ],
    )


register(ElectLeadersRequest, handle)
