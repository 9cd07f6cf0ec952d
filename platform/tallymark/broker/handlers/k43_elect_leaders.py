"""k43 ElectLeaders: give partitions the leader that they should have (KIP-183, KIP-460).

Served 0-2.

* v1 the type of election, preferred (0) or unclean (1), and a top-level error; v2 flexible

Kept: null means all partitions; the response then has only those that could not get a leader. With
several replicas type 0 elects the first of the assignment, if it is in sync, and type 1 the longest
log where no replica surely has everything: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
ELIGIBLE_LEADERS_NOT_AVAILABLE. A partition with one replica is led while its broker is there
(ELECTION_NOT_NEEDED), and by no other while it is away. After the timeout of the request the
elections go on, and each partition has REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind

_PREFERRED, _UNCLEAN = 0, 1
_NOT_THERE: Final = {
    _PREFERRED: CODES["PREFERRED_LEADER_NOT_AVAILABLE"],
    _UNCLEAN: CODES["ELIGIBLE_LEADERS_NOT_AVAILABLE"],
}
_NOT_NEEDED: Final = CODES["ELECTION_NOT_NEEDED"]
_DONE: Final = (0, "")


async def handle(
    state: BrokerState, request: ElectLeadersRequest, call: Call
) -> ElectLeadersResponse:
    """Hold the elections. If the request is refused, every partition has the error, as in Kafka."""
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
    failed = await _elected(state, request)
    results = []
    async for asked in in_turns(_asked(state, request)):
        outcomes = [
            (index, code, text)
            for index in asked.partitions
            for code, text in (failed.get((asked.topic, index), _DONE),)
            if request.topic_partitions is not None or code not in (0, _NOT_NEEDED)
        ]
        if outcomes or request.topic_partitions is not None:
            results.append(_topic(asked.topic, outcomes))
    return ElectLeadersResponse(replica_election_results=results)


async def _elected(
    state: BrokerState, request: ElectLeadersRequest
) -> Mapping[TopicPartition, tuple[int, str]]:
    """The partitions that got no leader, with the error and its text."""
    failed: dict[TopicPartition, tuple[int, str]] = {}
    several: list[TopicPartition] = []
    for asked in _asked(state, request):
        for index in asked.partitions:
            if _has_several(state, asked.topic, index):
                several.append((asked.topic, index))
            else:
                code = _election(state, asked.topic, index, request.election_type)
                failed[asked.topic, index] = (code, TABLE[code].text)
    if several:
        try:
            kind, once = Kind(request.election_type), list(dict.fromkeys(several))
            work = state.cluster.elect_leaders(kind, once)
            errors = await state.timed_changes.within(request.timeout_ms, work)
        except KafkaError as error:
            errors = dict.fromkeys(several, error)
        failed |= {key: (error.code, str(error)) for key, error in errors.items()}
    return failed


def _has_several(state: BrokerState, topic: str, index: int) -> bool:
    """Whether the partition is there and has several replicas."""
    known = state.image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return False
    return len(known.partitions[index].replicas) > 1


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
