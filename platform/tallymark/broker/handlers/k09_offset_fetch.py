"""k09 OffsetFetch: how far a group has read.

Served 1-9.

* v2 null asks for all topics; a top-level error
* v5 leader epochs (KIP-320); v6 flexible
* v7 may ask for stable offsets only (KIP-447): all are, there are no transactions
* v8 many groups in one request (KIP-709); v9 member epochs (KIP-848), ignored

Kept: a partition without a commit is answered with offset -1 and no error. In v1, which has no
top-level error, the error stands in every partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from tallymark.broker.coordinators import offsets_of
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import KafkaError
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.records import CommittedOffset
from tallymark.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_FIRST_WITH_GROUPS: Final = 8
_NOTHING: Final = CommittedOffset(-1)
_Topics = Sequence[OffsetFetchRequestTopic] | None


def handle(state: BrokerState, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """Look up every group asked for by itself."""
    if call.version >= _FIRST_WITH_GROUPS:
        groups: list[OffsetFetchResponseGroup] = []
        for group in request.groups:
            code, topics = _look_up(state, group.group_id, group.topics)
            groups.append(OffsetFetchResponseGroup(group.group_id, topics, code))
        return OffsetFetchResponse(groups=groups)
    code, topics = _look_up(state, request.group_id, request.topics)
    return OffsetFetchResponse(topics=topics, error_code=code)


def _look_up(
    state: BrokerState, group: str, asked: _Topics
) -> tuple[int, list[OffsetFetchResponseTopic]]:
    try:
        _, offsets = offsets_of(state, group)
    except KafkaError as error:
        return error.code, [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _partition(index, _NOTHING, error.code) for index in topic.partition_indexes
                ],
            )
            for topic in asked or ()
        ]
    return 0, _everything(offsets, group) if asked is None else _some(offsets, group, asked)


def _some(
    offsets: OffsetsState, group: str, asked: Sequence[OffsetFetchRequestTopic]
) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                _partition(index, offsets.get(group, topic.name, index) or _NOTHING)
                for index in topic.partition_indexes
            ],
        )
        for topic in asked
    ]


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
