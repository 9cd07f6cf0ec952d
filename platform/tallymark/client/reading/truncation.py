"""Has the log been cut below a position? (KIP-320)

A reader that has read up to offset n, the last record under leader epoch e, asks the leader where
epoch e ends. An end below n says that what was read from there on is no longer in the log: the
leader changed to a replica that did not have it, or a broker came back without its last records.
Offsets alone would not show that once other records stand there.

It is asked whenever a position does not simply go on from what this client has just read from the
same leader, in the same epoch, over the same connection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tallymark.client.core.cluster import Cluster
from tallymark.client.core.metadata import NO_EPOCH
from tallymark.client.reading.fetched import FetchSpec
from tallymark.client.reading.list_offsets import until_answered
from tallymark.errors import CODES, KafkaError, LogTruncatedError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponsePartition,
)
from tallymark.protocol.topic_partition import TopicPartition

log: Final = logging.getLogger(__name__)
_CONSUMER: Final = -1


class _Trusted(NamedTuple):
    """A position that needs no check: it goes on from what was read there."""

    offset: int
    leader_epoch: int
    connection: int


async def epoch_end(cluster: Cluster, topic: str, partition: int, leader_epoch: int) -> int | None:
    """The offset at which the log's records of ``leader_epoch`` and of those before it end; None:
    the log knows no epochs, or the broker cannot be asked for them.

    Tries again for the request timeout while the leader cannot be reached; then raises KafkaError
    or ConnectError."""

    async def ask() -> int | None:
        stream = await cluster.leader_stream(topic, partition)
        leader = cluster.metadata.leader(topic, partition)
        spec = FetchSpec(topic, partition, 0, leader_epoch)
        try:
            ends = await _ends(cluster, stream, [(spec, leader.epoch if leader else NO_EPOCH)])
        except KafkaError as error:
            if error.code == CODES["UNSUPPORTED_VERSION"]:
                return None
            raise
        found = ends.get((topic, partition))
        if found is None or found.error_code:
            code = CODES["NETWORK_EXCEPTION"] if found is None else found.error_code
            raise KafkaError(code, f"{topic}-{partition}")
        return found.end_offset if found.end_offset >= 0 else None

    return await until_answered(cluster, ask)


class TruncationCheck:
    """Remembers which positions are good, and asks about the others."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._trusted: dict[TopicPartition, _Trusted] = {}
        self._connections: dict[Address, int] = {}

    def trust(self, spec: FetchSpec, next_offset: int, leader_epoch: int, connection: int) -> None:
        """The partition was read up to ``next_offset`` from the leader of ``leader_epoch``, over
        the ``connection``-th connection to it."""
        self._trusted[spec.topic, spec.partition] = _Trusted(next_offset, leader_epoch, connection)

    async def check(
        self,
        address: Address,
        stream: BrokerConnection,
        connection: int,
        specs: Sequence[FetchSpec],
    ) -> Mapping[TopicPartition, KafkaError]:
        """What is wrong with positions: LogTruncatedError, or a retriable error when the leader
        is another one now. Positions without ``last_epoch`` are not looked at."""
        await self._notice_reconnect(address, connection, specs)
        doubtful = [spec for spec in specs if self._is_doubtful(connection, spec)]
        if not doubtful:
            return {}
        try:
            ends = await self._ask(stream, doubtful)
        except KafkaError as error:
            if error.code != CODES["UNSUPPORTED_VERSION"]:
                raise
            log.warning("%s cannot tell whether logs were cut: %s", address, error)
            return {}
        found: dict[TopicPartition, KafkaError] = {}
        for spec in doubtful:
            problem = _judge(spec, ends.get((spec.topic, spec.partition)))
            if problem is not None:
                found[spec.topic, spec.partition] = problem
        return found

    def leader_epoch(self, spec: FetchSpec) -> int:
        """The epoch of the partition's leader as far as is known."""
        leader = self._cluster.metadata.leader(spec.topic, spec.partition)
        return leader.epoch if leader else NO_EPOCH

    async def _notice_reconnect(
        self, address: Address, connection: int, specs: Sequence[FetchSpec]
    ) -> None:
        """A broker that we had to connect to again may have a new epoch: look."""
        if self._connections.setdefault(address, connection) != connection:
            await self._cluster.refresh({spec.topic for spec in specs})
            self._connections[address] = connection

    def _is_doubtful(self, connection: int, spec: FetchSpec) -> bool:
        epoch = self.leader_epoch(spec)
        if spec.last_epoch < 0 or epoch == NO_EPOCH:
            return False
        trusted = self._trusted.get((spec.topic, spec.partition))
        return trusted != _Trusted(spec.offset, epoch, connection)

    async def _ask(
        self, stream: BrokerConnection, specs: Sequence[FetchSpec]
    ) -> dict[TopicPartition, OffsetForLeaderEpochResponsePartition]:
        return await _ends(
            self._cluster, stream, [(spec, self.leader_epoch(spec)) for spec in specs]
        )


async def _ends(
    cluster: Cluster, stream: BrokerConnection, asked: Sequence[tuple[FetchSpec, int]]
) -> dict[TopicPartition, OffsetForLeaderEpochResponsePartition]:
    """Where the ``last_epoch`` of each spec ends; beside it the leader epoch that we know of."""
    topics: dict[str, list[OffsetForLeaderEpochRequestPartition]] = {}
    for spec, current in asked:
        part = OffsetForLeaderEpochRequestPartition(
            partition=spec.partition, current_leader_epoch=current, leader_epoch=spec.last_epoch
        )
        topics.setdefault(spec.topic, []).append(part)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=tuple(
            OffsetForLeaderEpochRequestTopic(topic=name, partitions=parts)
            for name, parts in topics.items()
        ),
    )
    response = await stream.request(request, timeout=cluster.request_timeout)
    return {
        (topic.topic, part.partition): part
        for topic in response.topics
        for part in topic.partitions
    }


def _judge(spec: FetchSpec, end: OffsetForLeaderEpochResponsePartition | None) -> KafkaError | None:
    if end is None:
        return KafkaError(CODES["NETWORK_EXCEPTION"], f"{spec.topic}-{spec.partition}: no answer")
    if end.error_code:
        return KafkaError(end.error_code, f"{spec.topic}-{spec.partition}")
    # No end at all: the log knows no epochs (it is older than they are), nothing can be said.
    if 0 <= end.end_offset < spec.offset:
        return LogTruncatedError(spec.topic, spec.partition, spec.offset, end.end_offset)
    return None
