"""Offsets by time, and the two ends of a log (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from tallymark.client.core.cluster import RETRY_BACKOFF, Cluster
from tallymark.errors import CODES, AuthenticationError, ConnectError, KafkaError, TallymarkError
from tallymark.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tallymark.protocol.topic_partition import EARLIEST, LATEST

T = TypeVar("T")


class OffsetAndTimestamp(NamedTuple):
    """A position in a log; ``timestamp`` is -1 for the ends of a log."""

    offset: int
    timestamp: int


async def list_offset(
    cluster: Cluster, topic: str, partition: int, time_ms: int, isolation: int = 0
) -> OffsetAndTimestamp | None:
    """The first record whose timestamp is ``time_ms`` or later, or an end of the log for EARLIEST
    (-2) and LATEST (-1); with ``isolation`` 1 the end is the last stable offset. None when no
    record is that late.

    Tries again for the request timeout while the leader cannot be reached; then raises KafkaError
    or ConnectError. An unknown partition is an error at once.
    """
    return await until_answered(
        cluster, lambda: _ask(cluster, topic, partition, time_ms, isolation)
    )


async def until_answered(cluster: Cluster, ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` returns. It is called again for the request timeout while the leader cannot be
    reached."""
    deadline = asyncio.get_running_loop().time() + cluster.request_timeout
    while True:
        try:
            return await ask()
        except (ConnectError, KafkaError) as error:
            late = asyncio.get_running_loop().time() + RETRY_BACKOFF > deadline
            if late or not _may_pass(error):
                raise
        await asyncio.sleep(RETRY_BACKOFF)
        await asyncio.shield(cluster.refresh_soon())


async def offsets_before(
    cluster: Cluster,
    topic: str,
    partition: int,
    time_ms: int,
    max_offsets: int,
    isolation: int = 0,
) -> list[int]:
    """Up to ``max_offsets`` positions at or before a time, descending: where the records of that
    time begin (the end of the log, when there is none), then the beginning of the log."""
    found = await list_offset(cluster, topic, partition, time_ms, isolation)
    if found is None:
        found = await list_offset(cluster, topic, partition, LATEST, isolation)
    offsets = [found.offset] if found else []
    if max_offsets > 1 and time_ms != EARLIEST:
        start = await list_offset(cluster, topic, partition, EARLIEST, isolation)
        offsets += [start.offset] if start and start.offset not in offsets else []
    return offsets[:max_offsets]


async def _ask(
    cluster: Cluster, topic: str, partition: int, time_ms: int, isolation: int
) -> OffsetAndTimestamp | None:
    stream = await cluster.leader_stream(topic, partition)
    leader = cluster.metadata.leader(topic, partition)
    part = ListOffsetsRequestPartition(
        partition_index=partition,
        current_leader_epoch=leader.epoch if leader else -1,
        timestamp=time_ms,
    )
    request = ListOffsetsRequest(
        isolation_level=isolation, topics=(ListOffsetsRequestTopic(name=topic, partitions=(part,)),)
    )
    response = await stream.request(request, timeout=cluster.request_timeout)
    if not response.topics or not response.topics[0].partitions:
        raise KafkaError(CODES["NETWORK_EXCEPTION"], f"{topic}-{partition}: no answer")
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(answer.error_code, f"{topic}-{partition}")
    return OffsetAndTimestamp(answer.offset, answer.timestamp) if answer.offset >= 0 else None


def _may_pass(error: TallymarkError) -> bool:
    if isinstance(error, KafkaError):
        return error.retriable and error.name != "UNKNOWN_TOPIC_OR_PARTITION"
    if isinstance(error, AuthenticationError):
        return False
    return isinstance(error, ConnectError) and error.stage != "bootstrap"
