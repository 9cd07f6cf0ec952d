"""k09 OffsetFetch: the offsets up to which a group has read.

Served 1-9.

* v2 null means all topics; a top-level error
* v5 leader epochs (KIP-320); v6 flexible
* v7 may ask for stable offsets only (KIP-447): UNSTABLE_OFFSET_COMMIT for partitions of which a
  transaction has committed one and is not over
* v8 many groups in one request (KIP-709); v9 member epochs (KIP-848), ignored

Kept: a partition without a commit is answered with offset -1 and no error, and so is an unknown
group. In v1, which has no top-level error, every partition has the error. Topics that the client
may not describe are left out of "all". Beyond Kafka: a group that one request names twice is
INVALID_REQUEST, a partition that it names twice is answered once; otherwise a small request could
cause a huge answer, as each partition has a text. An offset is sent when its record is committed;
where that takes too long the error is COORDINATOR_LOAD_IN_PROGRESS, which all clients repeat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

from tallymark.broker.coordinators.refusals import LOADING, NOT_AVAILABLE
from tallymark.broker.coordinators.settled import Settled, respond, when
from tallymark.broker.requests.group_coordinator import authorized_shard
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

A = TypeVar("A")
_FIRST_WITH_GROUPS: Final = 8
_GROUPS_A_TURN: Final = 10
_NOTHING: Final = CommittedOffset(-1)


class _Asked(NamedTuple):
    """What is asked of one group; ``topics`` None: all."""

    group: str
    topics: Sequence[OffsetFetchRequestTopic] | None
    require_stable: bool


def handle(
    state: BrokerState, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Look up each requested group by itself."""
    if call.version < _FIRST_WITH_GROUPS:

        def answer(code: int, topics: list[OffsetFetchResponseTopic]) -> OffsetFetchResponse:
            return OffsetFetchResponse(topics=topics, error_code=code)

        asked = _Asked(request.group_id, request.topics, request.require_stable)
        return respond(_look_up(state, asked, call, answer), _same)
    if len(request.groups) == 1:  # what every consumer asks
        return respond(
            _group(state, request.groups[0], request.require_stable, call),
            lambda group: OffsetFetchResponse(groups=[group]),
        )
    return _many(state, request, call)


def _same(answer: OffsetFetchResponse) -> OffsetFetchResponse:
    return answer


async def _many(state: BrokerState, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    seen: set[str] = set()
    groups: list[Settled[OffsetFetchResponseGroup]] = []
    async for each in in_turns(request.groups, _GROUPS_A_TURN):
        if each.group_id in seen:
            code = CODES["INVALID_REQUEST"]
            groups.append(OffsetFetchResponseGroup(each.group_id, error_code=code))
        else:
            seen.add(each.group_id)
            groups.append(_group(state, each, request.require_stable, call))
    return OffsetFetchResponse(groups=[await when(group) for group in groups])


def _group(
    state: BrokerState, asked: OffsetFetchRequestGroup, require_stable: bool, call: Call
) -> Settled[OffsetFetchResponseGroup]:
    def answer(code: int, topics: list[OffsetFetchResponseTopic]) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(asked.group_id, topics, code)

    return _look_up(state, _Asked(asked.group_id, asked.topics, require_stable), call, answer)


def _look_up(
    state: BrokerState,
    question: _Asked,
    call: Call,
    answer: Callable[[int, list[OffsetFetchResponseTopic]], A],
) -> Settled[A]:
    """``answer`` of an error code and the topics, when what they contain is committed."""
    group, asked, _ = question

    def refused(code: int) -> A:
        return answer(code, [_failed(topic, code) for topic in asked or ()])

    try:
        shard = authorized_shard(state, call.connection, Operation.DESCRIBE, group)
    except KafkaError as error:
        return refused(error.code)
    offsets = shard.state.offsets
    if asked is None:
        found = _everything(offsets, question)
        topics = [topic for topic in found if _may_describe(state, topic.name, call, quiet=True)]
    else:
        seen: set[tuple[str, int]] = set()
        topics = [
            _found(offsets, question, topic, seen)
            if _may_describe(state, topic.name, call)
            else _failed(topic, CODES["TOPIC_AUTHORIZATION_FAILED"])
            for topic in asked
        ]
    # Older clients give up at COORDINATOR_NOT_AVAILABLE: it is no error of this API.
    return shard.settled(
        answer(0, topics), lambda code: refused(LOADING if code == NOT_AVAILABLE else code)
    )


def _may_describe(state: BrokerState, topic: str, call: Call, *, quiet: bool = False) -> bool:
    return state.authorizer.may(
        call.connection, Operation.DESCRIBE, ResourceType.TOPIC, topic, quiet=quiet
    )


def _found(
    offsets: OffsetsState,
    question: _Asked,
    topic: OffsetFetchRequestTopic,
    seen: set[tuple[str, int]],
) -> OffsetFetchResponseTopic:
    partitions: list[OffsetFetchResponsePartition] = []
    for index in topic.partition_indexes:
        if (topic.name, index) not in seen:
            seen.add((topic.name, index))
            found = offsets.get(question.group, topic.name, index) or _NOTHING
            partitions.append(_stable(offsets, question, topic.name, index, found))
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _failed(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[_partition(index, _NOTHING, code) for index in topic.partition_indexes],
    )


def _everything(offsets: OffsetsState, question: _Asked) -> list[OffsetFetchResponseTopic]:
    found = {(name, index): each for name, index, each in offsets.of_group(question.group)}
    if question.require_stable:
        pending = offsets.pending.of_group(question.group)
        found = dict(sorted({**dict.fromkeys(pending, _NOTHING), **found}.items(), key=_place))
    return [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                _stable(offsets, question, name, index, each) for (_, index), each in commits
            ],
        )
        for name, commits in groupby(found.items(), key=lambda item: item[0][0])
    ]


def _place(item: tuple[tuple[str, int], CommittedOffset]) -> tuple[str, int]:
    return item[0]


def _stable(
    offsets: OffsetsState, question: _Asked, topic: str, index: int, found: CommittedOffset
) -> OffsetFetchResponsePartition:
    if question.require_stable and offsets.pending.is_pending(question.group, topic, index):
        return _partition(index, _NOTHING, CODES["UNSTABLE_OFFSET_COMMIT"])
    return _partition(index, found)


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
