"""k09 OffsetFetch: the offsets up to which a group has read.

Served 1-9.

* v2 null means all topics; a top-level error
* v5 leader epochs (KIP-320); v6 flexible
* v7 may ask for stable offsets only (KIP-447): all are, there are no transactions
* v8 many groups in one request (KIP-709); v9 member epochs (KIP-848), ignored

Kept: a partition without a commit is answered with offset -1 and no error, and so is an unknown
group. In v1, which has no top-level error, every partition has the error. Topics that the client
may not describe are left out of "all". Beyond Kafka: a group that one request names twice is
INVALID_REQUEST, a partition that it names twice is answered once; otherwise a small request could
cause a huge answer, as each partition has a text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import groupby
from typing import Final

from tallymark.broker.requests.group_coordinator import authorized_shard, flush_error, shard_of
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.records import CommittedOffset
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_FIRST_WITH_GROUPS: Final = 8
_GROUPS_A_TURN: Final = 10
_NOTHING: Final = CommittedOffset(-1)
_Topics = Sequence[OffsetFetchRequestTopic] | None


def handle(
    state: BrokerState, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Look up each requested group by itself."""
    if call.version < _FIRST_WITH_GROUPS:
        code, topics = _look_up(state, request.group_id, request.topics, call)
        answer = OffsetFetchResponse(topics=topics, error_code=code)
        return _exposed(state, request.group_id, answer, code)
    if len(request.groups) == 1:  # what every consumer asks
        group = _group(state, request.groups[0], call)
        answer = OffsetFetchResponse(groups=[group])
        return _exposed(state, group.group_id, answer, group.error_code)
    return _many(state, request.groups, call)


def _exposed(
    state: BrokerState, group_id: str, answer: OffsetFetchResponse, code: int
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """The answer, after the flush of what it tells where ``flush.before.expose`` asks for that: an
    offset that a power failure takes back must not be told."""
    if code:
        return answer
    try:
        exposed = shard_of(state, group_id).unexposed()
    except KafkaError as error:
        return _refused(answer, error.code)
    return answer if exposed is None else _later(answer, exposed)


async def _later(answer: OffsetFetchResponse, exposed: asyncio.Future[None]) -> OffsetFetchResponse:
    failed = await flush_error(exposed)
    return _refused(answer, failed) if failed else answer


def _refused(answer: OffsetFetchResponse, code: int) -> OffsetFetchResponse:
    if not answer.groups:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _partition(each.partition_index, _NOTHING, code) for each in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
        return OffsetFetchResponse(topics=topics, error_code=code)
    groups = [OffsetFetchResponseGroup(each.group_id, error_code=code) for each in answer.groups]
    return OffsetFetchResponse(groups=groups)


async def _many(
    state: BrokerState, asked: Sequence[OffsetFetchRequestGroup], call: Call
) -> OffsetFetchResponse:
    seen: set[str] = set()
    groups: list[OffsetFetchResponseGroup] = []
    async for each in in_turns(asked, _GROUPS_A_TURN):
        if each.group_id in seen:
            code = CODES["INVALID_REQUEST"]
            groups.append(OffsetFetchResponseGroup(each.group_id, error_code=code))
        else:
            seen.add(each.group_id)
            group = _group(state, each, call)
            answer = _exposed(
                state, each.group_id, OffsetFetchResponse(groups=[group]), group.error_code
            )
            if not isinstance(answer, OffsetFetchResponse):
                answer = await answer
            groups += answer.groups
    return OffsetFetchResponse(groups=groups)


def _group(
    state: BrokerState, asked: OffsetFetchRequestGroup, call: Call
) -> OffsetFetchResponseGroup:
    code, topics = _look_up(state, asked.group_id, asked.topics, call)
    return OffsetFetchResponseGroup(asked.group_id, topics, code)


def _look_up(
    state: BrokerState, group: str, asked: _Topics, call: Call
) -> tuple[int, list[OffsetFetchResponseTopic]]:
    try:
        shard = authorized_shard(state, call.connection, Operation.DESCRIBE, group)
    except KafkaError as error:
        return error.code, [_failed(topic, error.code) for topic in asked or ()]
    offsets = shard.state.offsets
    if asked is None:
        topics = _everything(offsets, group)
        return 0, [topic for topic in topics if _may_describe(state, topic.name, call, quiet=True)]
    seen: set[tuple[str, int]] = set()
    return 0, [
        _found(offsets, group, topic, seen)
        if _may_describe(state, topic.name, call)
        else _failed(topic, CODES["TOPIC_AUTHORIZATION_FAILED"])
        for topic in asked
    ]


def _may_describe(state: BrokerState, topic: str, call: Call, *, quiet: bool = False) -> bool:
    return state.authorizer.may(
        call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=quiet
    )


def _found(
    offsets: OffsetsState,
    group: str,
    topic: OffsetFetchRequestTopic,
    seen: set[tuple[str, int]],
) -> OffsetFetchResponseTopic:
    partitions: list[OffsetFetchResponsePartition] = []
    for index in topic.partition_indexes:
        if (topic.name, index) not in seen:
            seen.add((topic.name, index))
            found = offsets.get(group, topic.name, index) or _NOTHING
            partitions.append(_partition(index, found))
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _failed(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[_partition(index, _NOTHING, code) for index in topic.partition_indexes],
    )


def _everything(offsets: OffsetsState, group: str) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=name, partitions=[_partition(index, found) for _, index, found in commits]
        )
        for name, commits in groupby(offsets.of_group(group), key=lambda commit: commit[0])
    ]


def _partition(
    index: int, committed: CommittedOffset, error_code: int = 0
) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error_code,
    )


register(OffsetFetchRequest, handle)
