"""What the controller asks other brokers: where their logs end, and whether they are there.

Tails are asked with OffsetForLeaderEpoch, as a replica does: the answer is the greatest leader
epoch of the log that is not above the one of the question, and where that ends. As no broker leads
such a partition, and its epoch was raised before, the logs stand still meanwhile. A broker that
does not follow that epoch yet refuses, and is left out: its log may still grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tallymark.broker.connections.port import BrokerConnections
from tallymark.errors import ClosedError, ConnectError, KafkaError
from tallymark.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tallymark.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Tails
from tallymark.replication.model import UNKNOWN_EPOCH, PartitionView, Tail

log: Final = logging.getLogger(__name__)

ANSWER_MS: Final = 5000
"""How long a broker may take; shorter than a round of the controller waits."""
_MOST: Final = 1000
"""Partitions in one request."""


class BrokerAsker:
    """The :class:`~tallymark.broker.metadata.port.Asker` of broker ``me``."""

    def __init__(self, me: int, connections: BrokerConnections) -> None:
        self._me = me
        self._connections = connections

    async def tails(
        self,
        views: Mapping[TopicPartition, PartitionView],
        asked: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        """All brokers at a time."""
        of: dict[int, list[TopicPartition]] = {}
        for key, brokers in asked.items():
            for broker in brokers:
                of.setdefault(broker, []).append(key)
        epochs = {key: views[key].state.leader_epoch for key in asked}
        answers = await asyncio.gather(
            *(self._tails_of(broker, keys, epochs) for broker, keys in of.items())
        )
        found: dict[TopicPartition, dict[int, Tail]] = {key: {} for key in asked}
        for broker, tails in zip(of, answers, strict=True):
            for key, tail in tails.items():
                found[key][broker] = tail
        return found

    async def is_refused(self, broker: int) -> bool:
        """Whether no process listens at its address."""
        try:
            return await self._connections.is_refused(broker)
        except ClosedError:
            return False

    async def _tails_of(
        self, broker: int, keys: Sequence[TopicPartition], epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Tail]:
        found: dict[TopicPartition, Tail] = {}
        try:
            async with asyncio.timeout(ANSWER_MS / 1000):
                connection = await self._connections.open(broker)
                try:
                    for at in range(0, len(keys), _MOST):
                        request = self._request(keys[at : at + _MOST], epochs)
                        answer = await connection.send(request, ANSWER_MS)
                        found |= dict(_tails_in(answer, set(keys)))
                finally:
                    await connection.close()
        except (ConnectError, ClosedError, KafkaError, TimeoutError) as error:
            log.warning(
                "broker %d does not tell where its logs end, of %d partitions: %s",
                broker,
                len(keys) - len(found),
                str(error) or "it takes too long",
            )
        return found

    def _request(
        self, keys: Sequence[TopicPartition], epochs: Mapping[TopicPartition, int]
    ) -> OffsetForLeaderEpochRequest:
        topics: dict[str, list[OffsetForLeaderEpochRequestPartition]] = {}
        for name, index in keys:
            epoch = epochs[name, index]
            topics.setdefault(name, []).append(
                OffsetForLeaderEpochRequestPartition(
                    partition=index, current_leader_epoch=epoch, leader_epoch=epoch
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=self._me,
            topics=[
                OffsetForLeaderEpochRequestTopic(topic=name, partitions=parts)
                for name, parts in topics.items()
            ],
        )


def _tails_in(
    answer: OffsetForLeaderEpochResponse, asked: set[TopicPartition]
) -> Iterator[tuple[TopicPartition, Tail]]:
    for topic in answer.topics:
        for each in topic.partitions:
            key = (topic.topic, each.partition)
            if each.error_code:
                log.info("no tail partition=%s-%d: error %d", *key, each.error_code)
            elif key in asked and each.end_offset < 0:
                yield key, Tail(UNKNOWN_EPOCH, 0)  # a log without a record
            elif key in asked:
                yield key, Tail(each.leader_epoch, each.end_offset)
