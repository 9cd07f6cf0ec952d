"""k08 OffsetCommit: remember how far a group has read.

Served 2-9.

* v2 to v4 a retention time, which is ignored: commits do not expire
* v6 leader epochs (KIP-320); v7 static members (KIP-345); v8 flexible; v9 member epochs (KIP-848)

Kept: a commit is a record of ``__consumer_offsets`` in Kafka's own format, appended before the
answer and replayed at a restart. Simplified: groups have no members here, so a commit comes from a
consumer that assigned its partitions itself (generation -1, no member id); any other is told
UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tallymark.broker.coordinators import offsets_of
from tallymark.broker.handlers import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import Commit, decide_commit
from tallymark.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(state: BrokerState, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """Decide, append, replay, answer; all in one turn of the loop."""
    commits = list(_commits(state, request))
    try:
        partition, offsets = offsets_of(state, request.group_id)
        now_ms = state.now_ms()
        records, codes = decide_commit(
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            commits,
            now_ms,
            state.settings.offset_metadata_max_bytes,
        )
        state.offsets.write(partition, offsets, records, now_ms)
    except KafkaError as error:
        codes = [error.code] * len(commits)
    return _response(request, codes)


def _commits(state: BrokerState, request: OffsetCommitRequest) -> Iterator[Commit]:
    for topic in request.topics:
        known = state.image.topics.get(topic.name)
        count = len(known.partitions) if known else 0
        for part in topic.partitions:
            there = 0 <= part.partition_index < count
            yield Commit(
                topic.name,
                part.partition_index,
                part.committed_offset,
                part.committed_leader_epoch,
                part.committed_metadata or "",
                error=0 if there else CODES["UNKNOWN_TOPIC_OR_PARTITION"],
            )


def _response(request: OffsetCommitRequest, codes: Sequence[int]) -> OffsetCommitResponse:
    following = iter(codes)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=next(following)
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


register(OffsetCommitRequest, handle)
