"""The image holds the state nodes, is refreshed by what has changed, and leaders write states."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from partition_nodes import make, raise_epoch, state_of
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.broker.metadata.assignment import place
from tallymark.broker.metadata.image import PartitionImage, TopicImage
from tallymark.broker.metadata.port import StateOutcome
from tallymark.broker.metadata.zookeeper_states import StateNodes
from tallymark.broker.metadata.zookeeper_view import ZooKeeperView
from tallymark.coordination import (
    Access,
    ChangeReader,
    ControllerElection,
    TopicWriter,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.brokers import BrokerInfo, BrokerRegistry
from tallymark.coordination.cluster.feature_levels import write_features
from tallymark.coordination.replicas.writing import Fate
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.nodes import Node
from tallymark.coordination.topics.changes import change_of_states
from tallymark.coordination.topics.registry import encode_state
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized, Levels
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    ChangeState,
    PartitionState,
    TopicSettings,
)
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper, ThreadedTreeClient

T0: TopicPartition = ("t", 0)


class ReadingClient(ThreadedTreeClient):
    """Remembers the paths that are read."""

    read_paths: list[str]

    def read(self, path: str, watch: WatchCallback | None, timeout: float) -> Node:
        self.read_paths.append(path)
        return super().read(path, watch, timeout)

    def read_many(
        self, paths: Sequence[str], watch: WatchCallback | None, timeout: float
    ) -> list[Node | None]:
        self.read_paths += paths
        return super().read_many(paths, watch, timeout)


class Read(MemoryZooKeeper):
    """A server that remembers what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def client(
        self, hosts: str, session_seconds: float, listener: Callable[[str], None], access: Access
    ) -> ThreadedTreeClient:
        made = ReadingClient(self, hosts, session_seconds, listener, access)
        made.read_paths = self.paths
        return made


@pytest.fixture
def server() -> Read:
    return Read()


@pytest.fixture
def zookeeper(server: Read) -> Iterator[ZooKeeper]:
    with ZooKeeper(server.connect, "/c", client=server.client).start(create_root=True) as session:
        yield session


def view_of(zookeeper: ZooKeeper) -> ZooKeeperView:
    return ZooKeeperView(zookeeper, 1, lambda: 0)


def shrunk(zookeeper: ZooKeeper, isr: tuple[int, ...] = (1, 2), index: int = 0) -> ChangeState:
    state = state_of(zookeeper, index)
    return ChangeState(("t", index), state.version, replace(state, isr=isr), "broker 3 is behind")


def ids_of(zookeeper: ZooKeeper) -> dict[str, uuid.UUID]:
    return dict(view_of(zookeeper).read().ids_by_name)


def delete(zookeeper: ZooKeeper, name: str = "t") -> None:
    fence = ControllerElection(zookeeper, 1, lambda: 0).elect().fence
    assert fence is not None
    TopicWriter(zookeeper).delete(name, fence)


# --- the image


def test_the_image_has_the_whole_state_and_the_brokers_as_replication_sees_them(
    zookeeper: ZooKeeper,
) -> None:
    make(zookeeper, 2)
    TopicWriter(zookeeper).configure("t", {"min.insync.replicas": "2"})
    write_features(zookeeper, Finalized({REPLICATION: 1}))
    able = {REPLICATION: Levels(0, 1)}
    node = BrokerRegistry(zookeeper).register(
        BrokerInfo(3, "127.0.0.1", 9092, rack="a", features=able)
    )
    BrokerNotes(zookeeper).leave(3, node.epoch)
    image = view_of(zookeeper).read()
    topic = image.topics["t"]
    assert topic.partitions[1].state == state_of(zookeeper, 1)
    assert topic.partitions[1].assignment == Assignment((1, 2, 3))
    assert image.views == {3: BrokerView(3, node.epoch, "a", leaving=True)}
    assert sorted(image.unsteady) == [3]
    assert image.brokers[3].features == able
    assert image.features.level(REPLICATION) == 1
    view = topic.view_of(1, TopicSettings(min_insync=3, unclean_allowed=True))
    assert (view.min_insync, view.unclean_allowed, view.state.version) == (2, True, 0)
    assert replace(topic, configs={}).view_of(0, TopicSettings(3)).min_insync == 3


def test_new_topics_are_placed_on_brokers_that_stay_and_answer(zookeeper: ZooKeeper) -> None:
    """Until its session ended, a broker that was dead got partitions, and no other
    broker took its leads. A report of an earlier registration says nothing."""
    write_features(zookeeper, Finalized({REPLICATION: 1}))
    able = {REPLICATION: Levels(0, 1)}
    nodes = {
        one: BrokerRegistry(zookeeper).register(
            BrokerInfo(one, "127.0.0.1", 9090 + one, features=able)
        )
        for one in (1, 2, 3, 4)
    }
    notes = BrokerNotes(zookeeper)
    notes.suspect(1, nodes[1].epoch, 2)
    notes.suspect(2, nodes[2].epoch - 1, 3)
    notes.leave(3, nodes[3].epoch)
    image = view_of(zookeeper).read()
    assert (sorted(image.suspects), sorted(image.unsteady)) == ([1], [1, 3])
    assert {one for replicas in place(image, 10) for one in replicas} == {2, 4}
    assert {frozenset(replicas) for replicas in place(image, 10, 2)} == {frozenset({2, 4})}
    assert {one for replicas in place(image, 10, 3) for one in replicas} == {1, 2, 3, 4}


def test_a_change_of_one_partition_reads_that_partition(server: Read, zookeeper: ZooKeeper) -> None:
    """A follower that falls behind changes ISRs all the time: a topic of ten thousand partitions
    would be read by each broker every second."""
    make(zookeeper, 20)
    make(zookeeper, 2, "other")
    view = view_of(zookeeper)
    before = view.read()
    change = shrunk(zookeeper, index=7)
    nodes = StateNodes(zookeeper, lambda: 0)
    assert nodes.write([change], before.ids_by_name)[0].fate is Fate.DONE
    server.paths.clear()
    after = view.read()
    assert [path for path in server.paths if "/topics/" in path] == [
        "/c" + paths.partition_state("t", 7)
    ]
    assert after.topics["t"].partitions[7].isr == (1, 2)
    assert after.topics["other"] is before.topics["other"]
    for index in (0, 6, 8, 19):
        assert after.topics["t"].partitions[index] is before.topics["t"].partitions[index]
    server.paths.clear()
    assert view.read() is after, "nothing has changed"
    assert not [path for path in server.paths if "/topics/" in path]


def test_a_partition_that_is_new_or_gone_is_read_with_its_topic(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 1)
    view = view_of(zookeeper)
    view.read()
    TopicWriter(zookeeper).grow("t", lambda there: [(1, 2)], 0)
    assert len(view.read().topics["t"].partitions) == 2
    delete(zookeeper)
    make(zookeeper, 1)
    again = view.read().topics["t"]
    assert len(again.partitions) == 1
    zookeeper.commit([change_of_states([("t", 0), ("gone", 3)])])
    assert view.read().topics == {"t": again}


def test_a_state_that_cannot_be_read_leaves_its_partition_as_it_was(zookeeper: ZooKeeper) -> None:
    """The other partitions of the topic go on: they were held up by it before."""
    make(zookeeper, 2)
    view = view_of(zookeeper)
    before = view.read().topics["t"]
    zookeeper.write(paths.partition_state("t", 0), b"not JSON")
    raised = replace(state_of_node(zookeeper, 1), leader=2, leader_epoch=1)
    zookeeper.write(paths.partition_state("t", 1), encode_state(raised))
    zookeeper.commit([change_of_states([("t", 0), ("t", 1)])])
    after = view.read().topics["t"]
    assert (after.partitions[0], after.partitions[1].leader) == (before.partitions[0], 2)
    TopicWriter(zookeeper).configure("t", {"min.insync.replicas": "2"})  # all of it is read
    whole = view.read().topics["t"]
    assert (whole.partitions[0], whole.partitions[1].leader) == (before.partitions[0], 2)
    assert view_of(zookeeper).read().topics["t"].partitions[0].leader == -1, "never read"


def test_levels_that_cannot_be_read_stay_as_they_were(zookeeper: ZooKeeper) -> None:
    write_features(zookeeper, Finalized({REPLICATION: 1}))
    view = view_of(zookeeper)
    before = view.read().features
    zookeeper.write(paths.FEATURES, b"[]")
    assert view.read().features == before
    assert view_of(zookeeper).read().features == Finalized()


# --- writing


def test_a_state_is_written_once_andchange_of_states(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 2)
    ids, nodes = ids_of(zookeeper), StateNodes(zookeeper, lambda: 0)
    reader = ChangeReader(zookeeper)
    reader.unseen_changes()
    reader.done()
    change = shrunk(zookeeper)
    (done,) = nodes.write([change], ids)
    assert done == StateOutcome(change, Fate.DONE, state_of(zookeeper), {}, "broker 3 is behind")
    assert done.state is not None
    assert (done.state.isr, done.state.version) == ((1, 2), 1)
    (late,) = nodes.write([change], ids)
    assert (late.fate, late.state) == (Fate.REFUSED, state_of(zookeeper))
    assert nodes.read([T0, ("t", 5), ("gone", 0)], ids) == {T0: state_of(zookeeper)}
    changed = reader.unseen_changes()
    assert changed is not None
    assert changed.partitions == {T0}


def test_isrs_are_told_once_a_second(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 3)
    now = [5000]
    ids, nodes = ids_of(zookeeper), StateNodes(zookeeper, lambda: now[0])
    for index in range(3):
        nodes.write([shrunk(zookeeper, index=index)], ids)
    reader = ChangeReader(zookeeper)
    reader.unseen_changes()
    reader.done()
    assert nodes.pause_ms() == 1000
    now[0] += 400
    assert nodes.pause_ms() == 600
    nodes.send_notice()
    assert _partitions(reader) == set()
    now[0] += 600
    nodes.send_notice()
    assert _partitions(reader) == {("t", 1), ("t", 2)}
    assert nodes.pause_ms() is None


def test_who_joins_must_be_registered_as_it_was_seen(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 1)
    ids, nodes = ids_of(zookeeper), StateNodes(zookeeper, lambda: 0)
    seen = raise_epoch(zookeeper, 3)
    nodes.write([shrunk(zookeeper)], ids)
    raise_epoch(zookeeper, 3)
    back = replace(shrunk(zookeeper, (1, 2, 3)), joining={3: seen})
    (refused,) = nodes.write([back], ids)
    assert (refused.fate, refused.stale) == (Fate.REFUSED, {3: seen})
    assert refused.state == state_of(zookeeper)


def test_a_topic_of_the_same_name_is_not_written(zookeeper: ZooKeeper) -> None:
    """Versions and epochs begin again: the change of the old topic would fit the new one."""
    make(zookeeper, 1)
    old, nodes = ids_of(zookeeper), StateNodes(zookeeper, lambda: 0)
    change = shrunk(zookeeper)
    delete(zookeeper)
    make(zookeeper, 1)
    assert change.expected == state_of(zookeeper).version
    for writer in (nodes, StateNodes(zookeeper, lambda: 0)):
        (refused,) = writer.write([change], old)
        assert (refused.fate, refused.state, refused.why) == (
            Fate.REFUSED,
            None,
            "the topic was deleted",
        )
        assert writer.read([T0], old) == {}
    assert nodes.write([shrunk(zookeeper)], ids_of(zookeeper))[0].fate is Fate.DONE


def test_the_deletion_of_another_topic_holds_up_nothing(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 2)
    make(zookeeper, 1, "other")
    ids, nodes = ids_of(zookeeper), StateNodes(zookeeper, lambda: 0)
    assert nodes.write([shrunk(zookeeper)], ids)[0].fate is Fate.DONE
    delete(zookeeper, "other")
    gone = ChangeState(("other", 0), 0, state_of(zookeeper), "old")
    done, refused = nodes.write([shrunk(zookeeper, index=1), gone], ids)
    assert (done.fate, refused.fate, refused.state) == (Fate.DONE, Fate.REFUSED, None)


def test_a_topic_that_the_caller_does_not_know_is_not_written(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 1)
    assert StateNodes(zookeeper, lambda: 0).write([shrunk(zookeeper)], {})[0].state is None


@pytest.mark.parametrize("fault", [one for one in Fault if one is not Fault.NONE])
@pytest.mark.parametrize("at", range(8))
def test_whatever_fails_the_outcome_is_true(fault: Fault, at: int) -> None:
    """A command fails at each place of a write and the check behind it. Done is written, refused
    never will be, of an unknown outcome nothing is said."""
    server = SteppedZooKeeper()
    session = server.session("leader")
    make(session, 2)
    ids = ids_of(session)
    nodes = StateNodes(session, lambda: 0)
    old = ChangeState(("t", 1), 7, state_of(session, 1), "of another version")
    change = shrunk(session)
    left = [at]

    def script(name: str) -> Fault:
        left[0] -= 1
        return fault if left[0] == -1 else Fault.NONE

    server.script = script
    outcomes = nodes.write([change, old], ids)
    server.script = lambda name: Fault.NONE
    before = state_of(session)
    server.arrive()
    after = state_of(session)
    first, second = outcomes
    assert second.fate is Fate.REFUSED
    assert state_of(session, 1).version == 0
    if first.fate is Fate.DONE:
        assert before.isr == (1, 2)
        assert first.state == before
    elif first.fate is Fate.REFUSED:
        assert after.isr == (1, 2, 3)
    else:
        assert first.state is None
    for each in outcomes:
        if each.fate is Fate.REFUSED and each.state is not None:
            assert each.state == state_of(session, each.change.partition[1])


def test_a_topic_image_takes_states() -> None:
    one = PartitionImage.of(1, 0, (1, 2), (1, 2))
    topic = TopicImage("t", uuid.uuid4(), (one, one))
    changed = topic.with_states({1: PartitionState(2, 1, (2,))})
    assert (changed.partitions[0], changed.partitions[1].leader) == (one, 2)
    assert changed.partitions[1].replicas == (1, 2)


# --- helpers


def _partitions(reader: ChangeReader) -> set[TopicPartition]:
    changed = reader.unseen_changes()
    assert changed is not None
    reader.done()
    return set(changed.partitions)


def state_of_node(zookeeper: ZooKeeper, index: int) -> PartitionState:
    return view_of(zookeeper).read().topics["t"].partitions[index].state
