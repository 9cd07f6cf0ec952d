"""k08 OffsetCommit: store the offsets up to which a group has read.

Served 2-9.

* v2 to v4 a retention time, which goes before the broker's (``offsets.retention.minutes``)
* v6 leader epochs (KIP-320); v7 static members (KIP-345); v8 flexible
* v9 GROUP_ID_NOT_FOUND in place of ILLEGAL_GENERATION for an unknown group (KIP-848)

Kept: a commit is a record of ``__consumer_offsets`` in Kafka's own format, appended before the
answer and replayed at a restart. While a group has members only they commit, each with the
generation in force. A consumer that assigned its partitions itself (generation -1) commits to a
group without members. The answer leaves when the records
are committed (with one replica and ``flush.before.expose``: flushed). Simplified: the
text of a commit is counted in bytes, by Kafka in characters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from tallymark.broker.coordinators.settled import respond
from tallymark.broker.requests.group_coordinator import authorized_shard, commits_of
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import Committer
from tallymark.protocol.acls.words import Operation
from tallymark.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FIRST_WITH_NOT_FOUND: Final = 9


def handle(
    state: BrokerState, request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Decide, append, replay, answer; with one replica all in one turn of the loop."""
    commits = list(commits_of(state, call.connection, request.topics))
    newer = call.version >= _FIRST_WITH_NOT_FOUND
    try:
        shard = authorized_shard(state, call.connection, Operation.READ, request.group_id)
        codes = shard.commit(
            request.group_id,
            Committer(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                request.retention_time_ms,
            ),
            commits,
            state.settings.offset_metadata_max_bytes,
            CODES["GROUP_ID_NOT_FOUND" if newer else "ILLEGAL_GENERATION"],
        )
    except KafkaError as error:
        return _response(request, [error.code] * len(commits))
    return respond(codes, lambda told: _response(request, told))


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
