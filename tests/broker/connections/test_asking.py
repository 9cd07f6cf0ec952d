"""The controller asks brokers where their logs end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tallymark.broker.connections import asking
from tallymark.broker.connections.asking import BrokerAsker
from tallymark.errors import CODES
from tallymark.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tallymark.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Assignment, PartitionState, PartitionView, Tail
from tallymark.testing.memory_connections import MemoryConnections

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
Ends = Mapping[TopicPartition, tuple[int, int, int]]
"""(error, epoch, end) of each partition."""


def view(epoch: int) -> PartitionView:
    return PartitionView(Assignment((1, 2, 3)), PartitionState(-1, epoch, ()))


class Answers:
    """A broker whose logs end so. ``asked`` has what was asked: (replica, topic, partition, current
    epoch, epoch)."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.asked: list[tuple[int, str, int, int, int]] = []
        self.requests = 0

    async def __call__(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        self.requests += 1
        topics: list[OffsetForLeaderEpochResponseTopic] = []
        for topic in request.topics:
            parts: list[OffsetForLeaderEpochResponsePartition] = []
            for one in topic.partitions:
                asked = (topic.topic, one.partition, one.current_leader_epoch, one.leader_epoch)
                self.asked.append((request.replica_id, *asked))
                error, epoch, end = self.ends[topic.topic, one.partition]
                parts.append(
                    OffsetForLeaderEpochResponsePartition(
                        error_code=error,
                        partition=one.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=parts))
        return OffsetForLeaderEpochResponse(topics=topics)


async def silent(request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def test_each_broker_is_asked_once_for_all_its_partitions() -> None:
    async def check() -> None:
        two = Answers({T0: (0, 4, 70), T1: (0, -1, -1), U0: (0, 1, 5)})
        three = Answers({T0: (0, 5, 60)})
        connections = MemoryConnections({2: two, 3: three})
        found = await BrokerAsker(9, connections).tails(
            {T0: view(6), T1: view(7), U0: view(8)}, {T0: (2, 3), T1: (2,), U0: (2,)}
        )
        assert found == {
            T0: {2: Tail(4, 70), 3: Tail(5, 60)},
            T1: {2: Tail(-1, 0)},
            U0: {2: Tail(1, 5)},
        }
        assert two.requests == three.requests == 1
        assert two.asked == [(9, "t", 0, 6, 6), (9, "t", 1, 7, 7), (9, "u", 0, 8, 8)]
        assert all(each.closed for each in connections.opened)

    asyncio.run(check())


def test_who_refuses_or_is_away_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_MS", 50)

    async def check() -> None:
        behind = Answers({T0: (CODES["UNKNOWN_LEADER_EPOCH"], -1, -1)})
        connections = MemoryConnections({1: Answers({T0: (0, 2, 9)}), 2: behind, 3: silent})
        connections.refusing = {4}
        found = await BrokerAsker(1, connections).tails({T0: view(3)}, {T0: (1, 2, 3, 4, 5)})
        assert found == {T0: {1: Tail(2, 9)}}

    asyncio.run(check())


def test_answers_that_were_not_asked_for_are_ignored() -> None:
    async def check() -> None:
        async def odd(request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
            part = OffsetForLeaderEpochResponsePartition(partition=5, leader_epoch=1, end_offset=1)
            return OffsetForLeaderEpochResponse(
                topics=[OffsetForLeaderEpochResponseTopic(topic="x", partitions=[part])]
            )

        found = await BrokerAsker(1, MemoryConnections({2: odd})).tails({T0: view(3)}, {T0: (2,)})
        assert found == {T0: {}}

    asyncio.run(check())


def test_many_partitions_are_several_requests() -> None:
    async def check() -> None:
        keys = [("t", index) for index in range(2500)]
        two = Answers({key: (0, 1, key[1]) for key in keys})
        found = await BrokerAsker(1, MemoryConnections({2: two})).tails(
            {key: view(3) for key in keys}, dict.fromkeys(keys, (2,))
        )
        assert found["t", 2499] == {2: Tail(1, 2499)}
        assert two.requests == 3

    asyncio.run(check())


def test_a_refused_connection_is_told() -> None:
    async def check() -> None:
        connections = MemoryConnections({})
        connections.refusing = {2}
        asker = BrokerAsker(1, connections)
        assert await asker.is_refused(2)
        assert not await asker.is_refused(3)

    asyncio.run(check())
