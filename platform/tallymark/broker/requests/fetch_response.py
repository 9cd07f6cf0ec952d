"""The bytes of a Fetch response, from the results of a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from tallymark.broker.partitions.lead import READ_COMMITTED
from tallymark.broker.requests.fetch_round import FetchRound
from tallymark.net.server.responses import Part, Payload
from tallymark.protocol.frames import RequestHeader, encode_response_parts
from tallymark.protocol.messages import (
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponseLeader,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID, Buffer
from tallymark.protocol.wire.fetch import Found, PlainFetch, Topic, write_fetched

Topics = Sequence[tuple[Topic, Sequence[Found]]]


def response_of(
    header: RequestHeader,
    request: PlainFetch,
    session_id: int,
    topics: Topics,
    found: FetchRound,
    throttle_ms: int,
) -> bytes | Payload:
    """The whole frame of a response. Rare forms are encoded by the general codec."""
    committed = request.isolation_level == READ_COMMITTED
    if found.diverging or found.leaders or found.preferred:
        return _joined(_with_tags(header, session_id, topics, found, committed, throttle_ms))
    return _joined(
        write_fetched(
            header.api_version,
            header.correlation_id,
            session_id,
            topics,
            committed=committed,
            throttle_ms=throttle_ms,
        )
    )


def error_response(header: RequestHeader, error_code: int, throttle_ms: int) -> bytes | Payload:
    """The response to a request that fails as a whole."""
    return _joined(
        write_fetched(
            header.api_version,
            header.correlation_id,
            0,
            (),
            error_code=error_code,
            throttle_ms=throttle_ms,
        )
    )


def refused_response(header: RequestHeader, request: PlainFetch, error_code: int) -> bytes:
    """The response in which every partition named has the error; also for versions without an error
    of the whole request."""
    topics = [
        (topic, [Found(ask.partition, error_code, -1, -1, -1, b"") for ask in asks])
        for topic, asks in request.topics
    ]
    return b"".join(write_fetched(header.api_version, header.correlation_id, 0, topics))


def _with_tags(
    header: RequestHeader,
    session_id: int,
    topics: Topics,
    found: FetchRound,
    committed: bool,
    throttle_ms: int,
) -> list[Any]:
    response = FetchResponse(
        throttle_time_ms=throttle_ms,
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
        preferred_read_replica=found.preferred.get(place, -1),
        current_leader=found.leaders.get(place, FetchResponseLeader()),
        aborted_transactions=(
            [FetchResponseAbortedTransaction(*aborted) for aborted in each.aborted]
            if committed
            else None
        ),
        # A slice of a file stands for its bytes until they are written to the socket.
        records=cast(Buffer, each.records),
    )


def _joined(parts: Sequence[Any]) -> bytes | Payload:
    """The payload of the parts, with adjacent buffers joined: each part is a system call."""
    whole: list[Part] = []
    run: list[Buffer] = []
    size = 0
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            run.append(part)
            continue
        before = b"".join(run)
        whole += (before, part)
        size += len(before) + part.size
        run = []
    rest = b"".join(run)
    if not whole:
        return rest
    if rest:
        whole.append(rest)
    return Payload(whole, size + len(rest))
