"""Offsets by time, and the two ends of a log (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tallymark.client.core.cluster import RETRY_BACKOFF, Cluster
from tallymark.errors import CODES, AuthenticationError, ConnectError, KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition

T = TypeVar("T")
OffsetAnswered: TypeAlias = Callable[[TopicPartition, int | TallymarkError], None]
"""Is called with a partition and its offset, or why there is none."""
MOST_IN_A_REQUEST: Final = 1000
"""Partitions: so many hold a broker's event loop for some milliseconds."""


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


async def each_offset(
    cluster: Cluster,
    places: Collection[TopicPartition],
    time_ms: int,
    isolation: int,
    answered: OffsetAnswered,
) -> None:
    """An end of the log of many partitions (``time_ms`` EARLIEST or LATEST), with one request to
    each leader for up to :data:`MOST_IN_A_REQUEST` of them. ``answered`` is called once for every
    partition, as soon as its leader has answered: no leader holds up the others. Nothing is tried
    again."""
    unknown = {topic for topic, number in places if cluster.leader_address(topic, number) is None}
    if unknown:
        await cluster.refresh(unknown)
    by_leader: dict[Address, list[TopicPartition]] = {}
    for place in places:
        try:
            by_leader.setdefault(cluster.known_leader(*place), []).append(place)
        except KafkaError as error:
            answered(place, error)

    async def ask(address: Address, led: list[TopicPartition]) -> None:
        for first in range(0, len(led), MOST_IN_A_REQUEST):
            some = led[first : first + MOST_IN_A_REQUEST]
            found: Mapping[TopicPartition, OffsetAndTimestamp | TallymarkError]
            try:
                stream = await cluster.connections.get(address)
                found = await _ask_leader(cluster, stream, some, time_ms, isolation)
            except TallymarkError as error:
                found = dict.fromkeys(some, error)
            if any(isinstance(one, TallymarkError) and _may_pass(one) for one in found.values()):
                cluster.refresh_soon()
            for place in some:
                answered(place, _offset_of(place, found.get(place)))

    await asyncio.gather(*(ask(address, led) for address, led in by_leader.items()))


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


async def _ask_leader(
    cluster: Cluster,
    stream: BrokerConnection,
    places: Iterable[TopicPartition],
    time_ms: int,
    isolation: int,
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """What the leader answers; what it leaves out is missing."""
    topics: dict[str, list[ListOffsetsRequestPartition]] = {}
    for topic, number in places:
        leader = cluster.metadata.leader(topic, number)
        part = ListOffsetsRequestPartition(
            partition_index=number,
            current_leader_epoch=leader.epoch if leader else -1,
            timestamp=time_ms,
        )
        topics.setdefault(topic, []).append(part)
    request = ListOffsetsRequest(
        isolation_level=isolation,
        topics=tuple(
            ListOffsetsRequestTopic(name=name, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
    )
    response = await stream.request(request, timeout=cluster.request_timeout)
    return {
        (topic.name, part.partition_index): KafkaError(
            part.error_code, f"{topic.name}-{part.partition_index}"
        )
        if part.error_code
        else OffsetAndTimestamp(part.offset, part.timestamp)
        for topic in response.topics
        for part in topic.partitions
    }


async def _ask(
    cluster: Cluster, topic: str, partition: int, time_ms: int, isolation: int
) -> OffsetAndTimestamp | None:
    place = topic, partition
    stream = await cluster.leader_stream(topic, partition)
    found = (await _ask_leader(cluster, stream, [place], time_ms, isolation)).get(place)
    if found is None or isinstance(found, KafkaError):
        raise found or _no_answer(place)
    return found if found.offset >= 0 else None


def _offset_of(
    place: TopicPartition, found: OffsetAndTimestamp | TallymarkError | None
) -> int | TallymarkError:
    if found is None or isinstance(found, TallymarkError):
        return found or _no_answer(place)
    if found.offset < 0:
        return KafkaError(CODES["OFFSET_NOT_AVAILABLE"], f"{place[0]}-{place[1]}")
    return found.offset


def _no_answer(place: TopicPartition) -> KafkaError:
    return KafkaError(CODES["NETWORK_EXCEPTION"], f"{place[0]}-{place[1]}: no answer")


def _may_pass(error: TallymarkError) -> bool:
    if isinstance(error, KafkaError):
        return error.retriable and error.name != "UNKNOWN_TOPIC_OR_PARTITION"
    if isinstance(error, AuthenticationError):
        return False
    return isinstance(error, ConnectError) and error.stage != "bootstrap"
