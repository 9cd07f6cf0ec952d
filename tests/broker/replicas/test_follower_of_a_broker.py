"""The follower's side against the leader's, over sockets: what each believes of the other, held
together. The test is broker 2; the leader is a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from copying import content, eventually
from replica_broker import CONFIG, ReplicaBroker, batch
from replicated_topic import EPOCHS, ReplicatedTopic

from tallymark.broker.connections.outgoing import Outgoing
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.fetching import Followers
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient

ME = 2
SETTINGS = FetchSettings(replica_fetch_wait_max_ms=50)
"""A follower hears of a high watermark with the next answer."""


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with MemoryBroker() as running:
        yield running


class Follower:
    """Follows orders-0 of ``topic``."""

    def __init__(self, topic: ReplicatedTopic, flush_before_expose: bool = False) -> None:
        self.topic = topic
        self.mine = ReplicaBroker(
            MemoryFiles(), replace(CONFIG, flush_before_expose=flush_before_expose)
        )

    def run(self, work: Callable[[Followers], Awaitable[None]]) -> None:
        leaders = self.topic.partition
        copy = Partition("orders", 0, leaders.topic_id, self.mine.log, leaders.leader_epoch)
        copy.begin_replicated(0)
        self.mine.partition = copy

        async def with_cutter(cutter: ReplicaCutter, _: Cleaner) -> None:
            connections = SocketConnections(ME, Outgoing())
            connections.brokers_changed(self.topic.broker_state.image.brokers)
            followers = Followers(ME, connections, cutter, SETTINGS, lambda: 0)
            followers.registered(EPOCHS[ME])
            followers.follow(copy, 0)
            try:
                await work(followers)
            finally:
                await followers.stop()
                await connections.close()

        self.mine.run(with_cutter)

    def is_equal(self) -> bool:
        leaders, mine = self.topic.partition, self.mine.partition
        if mine.log.end_offset != leaders.log.end_offset:
            return False
        return content(mine.log) == content(leaders.log) and (
            mine.high_watermark == leaders.high_watermark == leaders.log.end_offset
        )


@pytest.mark.parametrize("flushed", [False, True])
def test_acks_all_is_answered_when_the_follower_has_it(broker: BrokerThread, flushed: bool) -> None:
    topic = ReplicatedTopic(broker, "orders", isr=(0, ME), records=5, known=0)
    follower = Follower(topic, flushed)

    def produce() -> int:
        with WireClient(broker.bootstrap_servers) as client:
            answer: Any = client.ask(topic.produce(acks=-1), 9)
            return int(answer.responses[0].partition_responses[0].error_code)

    async def work(followers: Followers) -> None:
        await eventually(follower.is_equal)
        for _ in range(3):
            assert await asyncio.to_thread(produce) == 0
        await eventually(follower.is_equal)
        assert followers.now().max_lag == 0

    follower.run(work)
    assert follower.mine.log.end_offset == 8
    if flushed:
        assert follower.mine.log.recovery_point == 8


def test_logs_that_part_are_cut_in_rounds_and_become_equal(broker: BrokerThread) -> None:
    """KIP-279, over a session of a real leader: its second round was never answered."""
    topic = ReplicatedTopic(broker, "orders", isr=(0, ME), records=2, known=0)
    leaders = topic.partition.log

    def lead_on() -> None:
        for epoch in (2, 4):
            leaders.start_epoch(epoch)
            leaders.append_leaders(batch(leaders.end_offset, epoch), epoch, 0)
        topic.partition.leader_epoch = 4
        topic.lead.grown()  # as after an append of a producer

    follower = Follower(topic)
    mine = follower.mine.log
    mine.append_leaders(bytes(leaders.read(0, 1 << 20).read()), 0, 0)
    follower.mine.follow(1, 1, 3, 3)
    topic.on_loop(lead_on)

    async def work(_: Followers) -> None:
        await eventually(lambda: mine.end_offset == leaders.end_offset and mine.latest_epoch == 4)

    follower.run(work)
    assert content(mine) == content(leaders)
