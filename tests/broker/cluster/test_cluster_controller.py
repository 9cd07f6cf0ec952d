"""The controller as a part of a broker: when its term begins, what wakes it, when it ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from partition_nodes import make, state_of
from starts import ABLE, Disk

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.broker.metadata.port import Membership
from tallymark.broker.metadata.zookeeper_cluster import ZooKeeperCluster
from tallymark.broker.settings.listeners import Endpoint
from tallymark.coordination import BrokerInfo, BrokerRegistry, ControllerElection, ZooKeeper, paths
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.coordination.replicas.term import Round, Term
from tallymark.coordination.session.kazoo_client import KazooPort
from tallymark.coordination.session.nodes import SetData
from tallymark.coordination.topics.registry import encode_state
from tallymark.errors import KafkaError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind, Tails
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import (
    NO_LEADER,
    Change,
    PartitionState,
    PartitionView,
    Tail,
    TopicSettings,
)
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.zookeeper import ZooKeeperServer
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper, ThreadedTreeClient


@dataclass
class Brokers:
    """What other brokers answer to the controller."""

    ends: Mapping[int, Tail] = field(default_factory=dict[int, Tail])
    refused: set[int] = field(default_factory=set[int])
    asked: list[TopicPartition] = field(default_factory=list[TopicPartition])

    async def tails(
        self,
        views: Mapping[TopicPartition, PartitionView],
        asked: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        self.asked += asked
        return {
            key: {one: self.ends[one] for one in brokers if one in self.ends}
            for key, brokers in asked.items()
        }

    async def is_refused(self, broker: int) -> bool:
        return broker in self.refused


class World:
    """Brokers of one cluster in memory, and a session of the test."""

    def __init__(self, connect: str = "") -> None:
        self.server = MemoryZooKeeper()
        self.connect = connect or self.server.connect
        self.client = KazooPort if connect else self.server.client
        self.sessions: dict[int, ZooKeeper] = {}
        self.clusters: dict[int, ZooKeeperCluster] = {}
        self.failed: list[TallymarkError] = []
        self.answers = Brokers()
        self.images: list[MetadataImage] = []
        self.applying = asyncio.Event()
        self.applying.set()
        self.zookeeper = self._session()
        self.defaults = TopicSettings()

    def _session(self) -> ZooKeeper:
        return self._new_session().start(create_root=True)

    def _new_session(self) -> ZooKeeper:
        return ZooKeeper(self.connect, "/c", client=self.client)

    async def broker(self, broker: int) -> ZooKeeperCluster:
        """One that runs."""
        session = self._new_session()
        files = MemoryFiles()
        files.make_dirs("/d")
        cluster = ZooKeeperCluster(session, broker, files, "/d", lambda: 0, self.failed.append)
        self.sessions[broker], self.clusters[broker] = session, cluster
        await cluster.cluster_id()
        at = {"PLAINTEXT": Endpoint("127.0.0.1", 9090 + broker)}
        membership = Membership(Disk(), asker=self.answers, defaults=lambda: self.defaults)
        await cluster.join(BrokerImage(broker, at, features=ABLE), self._apply, membership)
        return cluster

    async def _apply(self, image: MetadataImage) -> None:
        self.images.append(image)
        await self.applying.wait()

    def node(self, broker: int) -> BrokerNode:
        """A broker that only stands in ZooKeeper, in the session of the test."""
        return BrokerRegistry(self.zookeeper).register(
            BrokerInfo(broker, "127.0.0.1", 9090 + broker, "run", features=ABLE)
        )

    def end_session(self, broker: int) -> None:
        client = self.sessions[broker]._client
        assert isinstance(client, ThreadedTreeClient)
        with self.server.lock:
            self.server.ensemble.close(client.credentials()[0])
            client.disconnect()
            client.connect()

    def leader_in_image(self) -> int:
        topic = self.images[-1].topics.get("t")
        return NO_LEADER if topic is None else topic.partitions[0].leader

    def leader_in_node(self, partition: int) -> int:
        """Also where another node of the topic is malformed."""
        node = self.zookeeper.find(paths.partition_state("t", partition))
        assert node is not None
        return int(json.loads(node.data)["leader"])

    def state(self, partition: int = 0) -> PartitionState:
        return state_of(self.zookeeper, partition)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def run(check: Callable[[World], Awaitable[None]], *, level: int = 1, connect: str = "") -> None:
    async def body() -> None:
        world = World(connect)
        write_features(world.zookeeper, Finalized({REPLICATION: level}))
        try:
            await check(world)
            assert not world.failed
        finally:
            for cluster in world.clusters.values():
                await cluster.leave()
            world.zookeeper.close()

    asyncio.run(body())


def test_a_leader_that_is_gone_is_replaced() -> None:
    async def check(world: World) -> None:
        leader = world.node(1)
        world.node(3)
        await world.broker(2)
        make(world.zookeeper, 3)
        leader.release()
        await until(lambda: all(world.state(each).leader == 2 for each in range(3)))
        assert (world.state().leader_epoch, world.state().isr) == (1, (2, 3))
        await until(lambda: world.leader_in_image() == 2)

    run(check)


def test_below_level_1_there_is_no_term() -> None:
    async def check(world: World) -> None:
        leader = world.node(1)
        await world.broker(2)
        make(world.zookeeper, 1)
        leader.release()
        await until(lambda: 1 not in world.images[-1].brokers)
        assert world.state().leader == 1
        # The level rises while the broker runs: no start is needed.
        features = read_features(world.zookeeper)
        write_features(world.zookeeper, Finalized({REPLICATION: 1}, features.epoch))
        await until(lambda: world.state().leader == 2)

    run(check, level=0)


def test_logs_that_are_opened_hold_up_no_election() -> None:
    """An image takes seconds to apply after a broker has died: just then leaders are elected."""

    async def check(world: World) -> None:
        leader = world.node(1)
        await world.broker(2)
        make(world.zookeeper, 1)
        await until(lambda: "t" in world.images[-1].topics)
        world.applying.clear()
        leader.release()
        await until(lambda: world.state().leader == 2)
        world.applying.set()

    run(check)


def test_a_dead_controller_is_replaced_while_logs_are_opened() -> None:
    async def check(world: World) -> None:
        await world.broker(1)
        await world.broker(2)
        make(world.zookeeper, 1)
        await until(lambda: world.images[-1].controller_id == 1 and "t" in world.images[-1].topics)
        world.applying.clear()
        await asyncio.wait_for(_gone(world, 1), 20)
        await until(lambda: world.state().leader == 2)
        world.applying.set()

    run(check)


async def _gone(world: World, broker: int) -> None:
    """As if it were killed: its session ends, and it hears of nothing."""
    cluster = world.clusters.pop(broker)
    leaving = asyncio.create_task(cluster.leave())
    await until(lambda: broker not in BrokerRegistry(world.zookeeper).brokers())
    world.applying.set()
    await leaving
    world.applying.clear()


def test_a_new_session_stands_for_election_again() -> None:
    async def check(world: World) -> None:
        await world.broker(1)
        await world.broker(2)
        world.node(3)
        make(world.zookeeper, 1)
        await until(lambda: world.images[-1].controller_id == 1)
        world.end_session(1)
        # Either it gives its lead up when it registers again, and a leader is elected (epoch 2),
        # or the other broker, which stands for election too, has elected one before (epoch 1).
        leader = (await _elected(world)).leader
        BrokerNotes(world.zookeeper).leave(leader, _epoch(world, leader))
        await until(lambda: world.state().leader != leader)

    run(check)


async def _elected(world: World) -> PartitionState:
    """The first state with a leader of an epoch above 0, which one read found."""
    async with asyncio.timeout(20):
        while (found := world.state()).leader == NO_LEADER or found.leader_epoch == 0:
            await asyncio.sleep(0.005)
    return found


def _epoch(world: World, broker: int) -> int:
    return BrokerRegistry(world.zookeeper).brokers()[broker].epoch


def test_a_controller_that_was_deposed_in_the_middle_writes_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on with a round as if nothing had happened: the fence refuses it, and the broker
    stands for election again."""
    reached, go_on = threading.Event(), threading.Event()
    rounds: list[Round] = []
    plain = Term._decide

    def held(term: Term) -> Sequence[Change]:
        changes = plain(term)
        if changes and not reached.is_set():
            reached.set()
            go_on.wait(20)
        return changes

    plain_round = Term.round

    def noted(term: Term) -> Round:
        rounds.append(plain_round(term))
        return rounds[-1]

    monkeypatch.setattr(Term, "_decide", held)
    monkeypatch.setattr(Term, "round", noted)

    async def check(world: World) -> None:
        leader = world.node(1)
        await world.broker(2)
        make(world.zookeeper, 1)
        leader.release()
        await until(reached.is_set)
        zookeeper = world.zookeeper  # another broker has won an election
        epoch = zookeeper.find(paths.CONTROLLER_EPOCH)
        assert epoch is not None
        zookeeper.commit([SetData(paths.CONTROLLER_EPOCH, b"7", epoch.version)])
        go_on.set()
        await until(lambda: any(one.deposed for one in rounds))
        await until(lambda: world.state().leader == 2)
        assert world.state().controller_epoch == 7
        assert [one.deposed for one in rounds].count(True) == 1

    run(check)


def test_a_watch_that_fires_during_a_round_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The round has read the brokers already when the leader goes."""
    reached, go_on = threading.Event(), threading.Event()
    plain = Term._decide

    def held(term: Term) -> Sequence[Change]:
        changes = plain(term)
        if not reached.is_set() and ("t", 0) in term._picture.partitions:
            reached.set()
            go_on.wait(20)
        return changes

    monkeypatch.setattr(Term, "_decide", held)

    async def check(world: World) -> None:
        leader = world.node(1)
        await world.broker(2)
        make(world.zookeeper, 1)
        await until(reached.is_set)
        leader.release()
        await until(lambda: 1 not in world.images[-1].brokers)
        go_on.set()
        await until(lambda: world.state().leader == 2)

    run(check)


def test_malformed_nodes_leave_their_partition_out() -> None:
    async def check(world: World) -> None:
        leader = world.node(1)
        await world.broker(2)
        make(world.zookeeper, 3)
        whole = encode_state(world.state(1))
        world.zookeeper.write(paths.partition_state("t", 1), b"{]")
        world.zookeeper.create(f"{paths.TOPICS}/odd", b"no topic")
        world.zookeeper.create(f"{paths.SUSPECTS}/no-number", b"")
        leader.release()
        # A round reads the whole topic since the change of none of its states was told.
        await until(lambda: world.leader_in_node(0) == world.leader_in_node(2) == 2)
        world.zookeeper.write(paths.partition_state("t", 1), whole)

    run(check)


def test_brokers_are_asked_where_their_logs_end() -> None:
    async def check(world: World) -> None:
        up = [world.node(1), world.node(3)]
        world.answers.ends = {2: Tail(0, 5), 3: Tail(0, 9)}
        await world.broker(2)
        make(world.zookeeper, 1)
        incomplete = {1: Tail(0, 9), 2: Tail(0, 5), 3: Tail(0, 9)}
        node = PartitionState(NO_LEADER, 4, (), incomplete=incomplete)
        world.zookeeper.write(paths.partition_state("t", 0), encode_state(node))
        BrokerNotes(world.zookeeper).leave(7, 0)  # wakes the controller
        await until(lambda: world.answers.asked != [])
        await until(lambda: world.state().leader != NO_LEADER)
        state = world.state()
        assert (state.leader, state.leader_epoch, state.unclean) == (1, 5, True)
        del up

    run(check)


def test_a_suspect_is_tried_by_the_controller() -> None:
    async def check(world: World) -> None:
        one, three = world.node(1), world.node(3)
        await world.broker(2)
        make(world.zookeeper, 1)
        notes = BrokerNotes(world.zookeeper)
        notes.suspect(1, one.epoch, 3)
        await until(lambda: notes.suspects() == {})  # it answers: the report is removed
        assert world.state().leader == 1
        world.answers.refused = {1}
        notes.suspect(1, one.epoch, 3)
        await until(lambda: world.state().leader == 2)
        del three

    run(check)


def test_settings_of_the_broker_that_change_count_in_the_next_round() -> None:
    async def check(world: World) -> None:
        leader, third = world.node(1), world.node(3)
        await world.broker(2)
        make(world.zookeeper, 1)
        await until(lambda: "t" in world.images[-1].topics)
        world.defaults = TopicSettings(min_insync=2)
        third.release()
        await until(lambda: world.state().isr == (1, 2))
        leader.release()
        await until(lambda: world.state().leader == 2)
        assert world.state().isr == (1, 2), "2 is the least"

    run(check)


def test_a_broker_that_stops_ends_its_term_and_resigns() -> None:
    async def check(world: World) -> None:
        leader = world.node(1)
        cluster = await world.broker(2)
        make(world.zookeeper, 1)
        await until(lambda: "t" in world.images[-1].topics)
        await cluster.retire()
        assert ControllerElection(world.zookeeper, 9, lambda: 0).current() is None
        leader.release()
        await asyncio.sleep(0.05)
        assert world.state().leader == 1

    run(check)


def test_a_topic_with_replicas_is_led_by_the_first_and_in_sync_with_all() -> None:
    async def check(world: World) -> None:
        nodes = [world.node(1), world.node(3)]
        cluster = await world.broker(2)
        await cluster.create_topic("t", 3, {}, None, 3)
        topic = world.images[-1].topics["t"]
        for partition in topic.partitions:
            assert len(set(partition.replicas)) == 3
            assert (partition.leader, partition.isr) == (
                partition.replicas[0],
                partition.replicas,
            )
        assert {partition.leader for partition in topic.partitions} == {1, 2, 3}
        await cluster.create_partitions("t", 4)
        assert len(world.images[-1].topics["t"].partitions[3].replicas) == 3
        del nodes

    run(check)


def test_below_level_1_a_topic_with_replicas_is_refused_with_the_reason() -> None:
    async def check(world: World) -> None:
        node = world.node(1)
        cluster = await world.broker(2)
        with pytest.raises(KafkaError, match=r"need level 1 of replication.version"):
            await cluster.create_topic("t", 1, {}, None, 2)
        assert "t" not in (await cluster.refresh()).topics
        del node

    run(check, level=0)


@pytest.mark.process
def test_with_a_real_zookeeper_leaders_go_and_come(tmp_path: Path) -> None:
    """A clean stop of the controller, which leads as well, and an operator's election."""

    async def check(world: World) -> None:
        one = await world.broker(1)
        two = await world.broker(2)
        node = world.node(3)
        await two.create_topic("t", 3, {}, [[1, 2, 3]] * 3)
        await until(lambda: world.images[-1].controller_id == 1)
        await one.retire()
        await until(lambda: all(world.state(each).leader == 2 for each in range(3)))
        assert [world.state(each).leader_epoch for each in range(3)] == [1, 1, 1]
        assert world.state().isr == (2, 3)
        await until(lambda: world.leader_in_image() == 2)
        failed = await two.elect_leaders(Kind.PREFERRED, [("t", 0)])
        assert failed["t", 0].name == "PREFERRED_LEADER_NOT_AVAILABLE"
        node.release()

    with ZooKeeperServer(tmp_path) as server:
        run(check, connect=server.connect)


# --- ElectLeaders


def test_the_preferred_leader_is_elected_on_request() -> None:
    async def check(world: World) -> None:
        nodes = [world.node(1), world.node(3)]
        cluster = await world.broker(2)
        make(world.zookeeper, 2)
        for index in range(2):
            moved = replace(world.state(index), leader=3, leader_epoch=4)
            world.zookeeper.write(paths.partition_state("t", index), encode_state(moved))
        failed = await cluster.elect_leaders(Kind.PREFERRED, [("t", 0), ("t", 9), ("gone", 0)])
        assert {key: error.name for key, error in failed.items()} == {
            ("t", 9): "UNKNOWN_TOPIC_OR_PARTITION",
            ("gone", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        }
        assert (world.state().leader, world.state().leader_epoch) == (1, 5)
        assert world.state(1).leader == 3
        assert world.leader_in_image() == 1, "the answer comes when the image has it"
        again = await cluster.elect_leaders(Kind.PREFERRED, [("t", 0)])
        assert again["t", 0].name == "ELECTION_NOT_NEEDED"
        unclean = await cluster.elect_leaders(Kind.UNCLEAN, [("t", 0)])
        assert unclean["t", 0].name == "ELECTION_NOT_NEEDED"
        del nodes

    run(check)


def test_an_operator_takes_the_longest_log_that_is_there() -> None:
    """Broker 3 is away, and only it surely has everything."""

    async def check(world: World) -> None:
        node = world.node(1)
        world.answers.ends = {1: Tail(2, 40), 2: Tail(3, 30)}
        cluster = await world.broker(2)
        make(world.zookeeper, 1)
        alone = PartitionState(NO_LEADER, 7, (3,))
        world.zookeeper.write(paths.partition_state("t", 0), encode_state(alone))
        preferred = await cluster.elect_leaders(Kind.PREFERRED, [("t", 0)])
        assert preferred["t", 0].name == "PREFERRED_LEADER_NOT_AVAILABLE"
        assert await cluster.elect_leaders(Kind.UNCLEAN, [("t", 0)]) == {}
        state = world.state()
        assert (state.leader, state.leader_epoch, state.isr) == (2, 8, (2,))
        assert state.unclean
        assert world.answers.asked == [("t", 0)]
        node.release()

    run(check)
