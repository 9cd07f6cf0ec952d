"""From what a round of a fetch found to the bytes of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast
from uuid import UUID

from tallymark.broker.requests.fetch_round import FetchRound
from tallymark.net.server.handler import Answer
from tallymark.protocol.frames import RequestHeader, encode_response_parts
from tallymark.protocol.messages import (
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseLeader,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID, Buffer
from tallymark.protocol.wire.fetch import Found, PlainFetch, Topic, write_fetched

_READ_COMMITTED: Final = 1
Topics = Sequence[tuple[Topic, Sequence[Found]]]


def answer(
    header: RequestHeader,
    request: PlainFetch,
    session_id: int,
    topics: Topics,
    found: FetchRound,
) -> Answer:
    """The frame of the answer. What is rare goes through the codec of all messages."""
    committed = request.isolation_level == _READ_COMMITTED
    if found.diverging or found.leaders:
        parts = _with_tags(header, session_id, topics, found, committed)
    else:
        parts = write_fetched(
            header.api_version, header.correlation_id, session_id, topics, committed=committed
        )
    return _joined(parts)


def refused(header: RequestHeader, error_code: int) -> Answer:
    """The answer to a request that fails as a whole."""
    return _joined(
        write_fetched(header.api_version, header.correlation_id, 0, (), error_code=error_code)
    )


def _with_tags(
    header: RequestHeader,
    session_id: int,
    topics: Topics,
    found: FetchRound,
    committed: bool,
) -> list[Any]:
    response = FetchResponse(
        session_id=session_id,
        responses=[
            FetchResponseTopic(
                topic="" if isinstance(topic, UUID) else topic,
                topic_id=topic if isinstance(topic, UUID) else ZERO_UUID,
                partitions=[_partition(topic, each, found, committed) for each in partitions],
            )
            for topic, partitions in topics
        ],
        node_endpoints=list(found.nodes.values()),
    )
    return encode_response_parts(response, header.api_version, header.correlation_id)


def _partition(
    topic: Topic, each: Found, found: FetchRound, committed: bool
) -> FetchResponsePartition:
    place = (topic, each.partition)
    return FetchResponsePartition(
        partition_index=each.partition,
        error_code=each.error_code,
        high_watermark=each.high_watermark,
        last_stable_offset=each.last_stable_offset,
        log_start_offset=each.log_start_offset,
        diverging_epoch=found.diverging.get(place, FetchResponseEpochEndOffset()),
        current_leader=found.leaders.get(place, FetchResponseLeader()),
        aborted_transactions=() if committed else None,
        # A slice of a file stands for its bytes until they are written to the socket.
        records=cast(Buffer, each.records),
    )


def _joined(parts: Sequence[Any]) -> Answer:
    """Buffers that follow one another as one: each part is a system call."""
    whole: list[Any] = []
    run: list[Any] = []
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            run.append(part)
            continue
        whole += (b"".join(run), part)
        run = []
    if not whole:
        return b"".join(run)
    if run:
        whole.append(b"".join(run))
    return whole
