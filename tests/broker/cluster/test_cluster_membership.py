"""A broker hears of its registrations, and that others may take it for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pytest
from partition_nodes import make, state_of
from starts import ABLE, epoch_of

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.broker.metadata.port import Membership
from tallymark.broker.metadata.zookeeper_cluster import ZooKeeperCluster
from tallymark.broker.settings.listeners import Endpoint
from tallymark.coordination import Access, ZooKeeper
from tallymark.coordination.cluster.feature_levels import write_features
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import Tail
from tallymark.replication.registration import LocalLog
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper, ThreadedTreeClient

ME = BrokerImage(1, {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}, features=ABLE)


@dataclass
class Part:
    """A broker with logs; ``heard`` is what it was told: epochs, and None for presumed dead."""

    intact: bool = True
    boots: int = 0
    heard: list[int | None] = field(default_factory=list[int | None])
    images: list[MetadataImage] = field(default_factory=list[MetadataImage])
    asked: list[TopicPartition] = field(default_factory=list[TopicPartition])

    def logs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LocalLog]:
        self.asked += partitions
        return {each: LocalLog(Tail(3, 50), self.intact) for each in self.asked}

    def remember_boot(self) -> None:
        self.boots += 1

    async def apply(self, image: MetadataImage) -> None:
        self.images.append(image)

    @property
    def membership(self) -> Membership:
        return Membership(self, self.heard.append, lambda: self.heard.append(None))


class World:
    """A server in memory, and the client of the broker's session."""

    def __init__(self, session_ms: int = 60_000) -> None:
        self.server = MemoryZooKeeper()
        self.clients: list[ThreadedTreeClient] = []
        self.part = Part()
        self.failed: list[TallymarkError] = []

        def client(
            hosts: str, seconds: float, listener: Callable[[str], None], access: Access
        ) -> ThreadedTreeClient:
            self.clients.append(self.server.client(hosts, seconds, listener, access))
            return self.clients[-1]

        self.session = ZooKeeper(self.server.connect, "/c", session_ms, client=client)
        files = MemoryFiles()
        files.make_dirs("/d")
        self.cluster = ZooKeeperCluster(self.session, 1, files, "/d", lambda: 0, self.failed.append)

    async def join(self) -> None:
        await self.cluster.join(ME, self.part.apply, self.part.membership)

    def lose_connection(self) -> None:
        with self.server.lock:
            self.clients[0].disconnect()

    def connect(self) -> None:
        with self.server.lock:
            self.clients[0].connect()

    def end_session(self) -> None:
        with self.server.lock:
            self.server.ensemble.close(self.clients[0].credentials()[0])
            self.clients[0].disconnect()
            self.clients[0].connect()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def run(check: Callable[[World], Awaitable[None]]) -> None:
    async def body() -> None:
        world = World()
        await world.cluster.cluster_id()
        try:
            await check(world)
            assert not world.failed
        finally:
            await world.cluster.leave()

    asyncio.run(body())


def test_each_registration_is_told_with_its_epoch() -> None:
    async def check(world: World) -> None:
        await world.join()
        assert world.part.heard == [epoch_of(world.session, 1)]
        assert world.part.boots == 1
        assert world.part.images[-1].brokers[1].epoch == world.part.heard[0]
        world.end_session()
        await until(lambda: len(world.part.heard) == 3)
        assert world.part.heard[1:] == [None, epoch_of(world.session, 1)]

    run(check)


def test_a_session_that_lives_on_is_counted_on_again() -> None:
    async def check(world: World) -> None:
        await world.join()
        world.session.session_timeout_ms = 20
        world.lose_connection()
        await until(lambda: len(world.part.heard) == 2)
        world.connect()
        await until(lambda: len(world.part.heard) == 3)
        first, dead, again = world.part.heard
        assert dead is None
        assert first == again == epoch_of(world.session, 1)

    run(check)


def test_a_short_pause_changes_nothing() -> None:
    async def check(world: World) -> None:
        await world.join()
        world.lose_connection()
        await asyncio.sleep(0.02)
        world.connect()
        await until(lambda: world.session.session != 0)
        await world.cluster.refresh()
        assert len(world.part.heard) == 1

    run(check)


@pytest.mark.parametrize("intact", [True, False])
def test_a_start_gives_up_leads_and_votes_of_logs_that_are_not_intact(intact: bool) -> None:
    async def check(world: World) -> None:
        make(world.session, 1)
        write_features(world.session, Finalized({REPLICATION: 1}))
        world.part.intact = intact
        await world.join()
        state = state_of(world.session)
        assert (state.leader, state.leader_epoch) == (-1, 1)
        assert state.isr == ((1, 2, 3) if intact else (2, 3))
        assert state.incomplete == ({} if intact else {1: Tail(3, 50)})
        world.part.intact = True
        world.end_session()  # a later session of the same process
        await until(lambda: len(world.part.heard) == 3)
        assert state_of(world.session).incomplete == state.incomplete

    run(check)


def test_without_replication_no_log_is_looked_at() -> None:
    async def check(world: World) -> None:
        make(world.session, 1)
        await world.join()
        assert world.part.asked == []
        assert state_of(world.session).leader == 1

    run(check)


def test_a_broker_that_stops_hears_nothing_more() -> None:
    async def check(world: World) -> None:
        await world.join()
        await world.cluster.retire()
        world.end_session()
        await asyncio.sleep(0.02)
        assert len(world.part.heard) == 1

    run(check)
