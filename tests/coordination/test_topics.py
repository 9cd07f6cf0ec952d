"""Topics in a real ZooKeeper: who reads them sees them whole, and no writer writes on old news."""

from __future__ import annotations

import uuid

import pytest

from tallymark.coordination import (
    ChangeReader,
    ControllerElection,
    TopicAssignment,
    TopicConfigs,
    TopicRegistry,
    TopicWriter,
    ZooKeeper,
    paths,
)
from tallymark.coordination.session.kazoo_client import KazooPort
from tallymark.coordination.session.nodes import Check, Create
from tallymark.coordination.topics.changes import KEPT, change_of
from tallymark.coordination.topics.registry import encode_topic
from tallymark.coordination.topics.writer import STEP_PARTITIONS
from tallymark.errors import KafkaError
from tallymark.replication.model import PartitionState


def make(zookeeper: ZooKeeper, name: str = "t", partitions: int = 1, **config: str) -> uuid.UUID:
    identity = uuid.uuid4()
    TopicWriter(zookeeper).create(name, identity, {p: [1] for p in range(partitions)}, config)
    return identity


def read(zookeeper: ZooKeeper, name: str = "t") -> TopicAssignment:
    topic = TopicRegistry(zookeeper).get(name)
    assert topic is not None
    return topic


def epochs(zookeeper: ZooKeeper, name: str = "t") -> list[int]:
    states = TopicRegistry(zookeeper).states([read(zookeeper, name)])
    return [state.leader_epoch for _, state in sorted(states.items())]


def office(zookeeper: ZooKeeper, broker_id: int = 1) -> Check:
    fence = ControllerElection(zookeeper, broker_id, lambda: 17).elect().fence
    assert fence is not None
    return fence


def test_a_topic_appears_whole(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    changes = ChangeReader(other)
    assert changes.unseen() is None
    changes.done()
    identity = uuid.uuid4()
    TopicWriter(zookeeper).create("t", identity, {0: [1, 2], 1: [2, 1]}, {"retention.ms": "5"})
    assert changes.unseen() == {"t"}
    topic = read(other)
    assert (topic.topic_id, topic.assignment) == (identity, {0: (1, 2), 1: (2, 1)})
    assert TopicRegistry(other).states([topic]) == {
        ("t", 0): PartitionState(1, 0, (1, 2), 0, 0),
        ("t", 1): PartitionState(2, 0, (2, 1), 0, 0),
    }
    assert TopicRegistry(other).get_many(["t", "nothing"]) == {"t": topic}
    assert TopicConfigs(other).get_many(["t", "x"]) == {"t": {"retention.ms": "5"}, "x": {}}


def test_creating_a_topic_that_is_there_changes_nothing(zookeeper: ZooKeeper) -> None:
    make(zookeeper, a="b")
    before = read(zookeeper)
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        make(zookeeper, partitions=2)
    assert read(zookeeper) == before
    assert TopicConfigs(zookeeper).get("t") == {"a": "b"}


def test_a_topic_is_deleted_with_everything_and_inherits_nothing(zookeeper: ZooKeeper) -> None:
    make(zookeeper, a="b")
    registry = TopicRegistry(zookeeper)
    registry.request_deletes(["t"])
    registry.request_deletes(["t"])
    assert registry.deletions() == ["t"]
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        make(zookeeper)
    TopicWriter(zookeeper).delete("t", office(zookeeper))
    assert registry.deletions() == []
    assert registry.names() == []
    zookeeper.put(paths.topic_config("t"), b'{"version":1,"config":{"orphan":"1"}}')
    make(zookeeper)
    assert TopicConfigs(zookeeper).get("t") == {}


def test_a_deposed_controller_deletes_nothing(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    """The flow: a controller is about to delete; it is silent for too long, another one is elected,
    deletes the topic, and somebody creates it again. The first one wakes up and goes on."""
    make(zookeeper)
    TopicRegistry(zookeeper).request_deletes(["t"])
    old = office(zookeeper)
    ControllerElection(zookeeper, 1, lambda: 17).resign()
    TopicWriter(other).delete("t", office(other, 2))
    again = make(other)
    with pytest.raises(KafkaError, match="STALE_CONTROLLER_EPOCH"):
        TopicWriter(zookeeper).delete("t", old)
    assert read(zookeeper).topic_id == again
    with pytest.raises(KafkaError, match="STALE_CONTROLLER_EPOCH"):
        TopicWriter(zookeeper).put_states(
            {("t", 0): PartitionState(1, 1, (1,), version=0)}, TopicWriter(other).guard(), old
        )
    assert epochs(zookeeper) == [0]


def test_what_is_left_of_a_deletion_is_finished_by_the_next_controller(
    zookeeper: ZooKeeper,
) -> None:
    """A deletion in steps that ended in the middle: some states are gone, the request stands."""
    make(zookeeper, partitions=3, a="b")
    TopicRegistry(zookeeper).request_deletes(["t"])
    zookeeper.delete_tree(f"{paths.partitions('t')}/0")
    zookeeper.delete(paths.partition_state("t", 1))
    TopicWriter(zookeeper).delete("t", office(zookeeper))
    assert not zookeeper.exists(paths.topic("t"))
    assert not zookeeper.exists(paths.topic_config("t"))
    # A request for what is not there is removed too.
    TopicRegistry(zookeeper).request_deletes(["gone"])
    TopicWriter(zookeeper).delete("gone", office(zookeeper))
    assert TopicRegistry(zookeeper).deletions() == []


def test_states_change_by_compare_and_set(zookeeper: ZooKeeper) -> None:
    make(zookeeper, partitions=3)
    writer = TopicWriter(zookeeper)
    changes = ChangeReader(zookeeper)
    changes.unseen()
    changes.done()
    raised = PartitionState(1, 1, (1,), version=0)
    states = {("t", p): raised for p in range(3)}
    assert writer.put_states({("t", 1): raised}, writer.guard()) == {}
    failed = writer.put_states(states, writer.guard())
    assert list(failed) == [("t", 1)], "one that somebody else was quicker with stops no other"
    assert epochs(zookeeper) == [1, 1, 1]
    assert changes.unseen() == {"t"}


def test_who_slept_while_a_topic_was_created_again_writes_nothing(zookeeper: ZooKeeper) -> None:
    """The new topic's nodes have the versions of the old one's, so versions alone do not tell."""
    make(zookeeper)
    writer = TopicWriter(zookeeper)
    guard = writer.guard()
    TopicRegistry(zookeeper).request_deletes(["t"])
    writer.delete("t", office(zookeeper))
    make(zookeeper)
    states = {("t", 0): PartitionState(9, 7, (9,), version=0)}
    assert list(writer.put_states(states, guard)) == [("t", 0)]
    assert epochs(zookeeper) == [0]


def test_a_topic_grows_once_for_those_who_ask_at_once(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    """Both have read two partitions and want four; the second must look again, and not write its
    own over what the first has made of partitions 2 and 3."""
    identity = make(zookeeper, partitions=2)
    asked: list[int] = []

    def added(there: int) -> list[tuple[int, ...]]:
        asked.append(there)
        if there == 2:
            TopicWriter(other).grow("t", lambda n: [(5,)] * (4 - n), 0)
        return [(6,)] * (5 - there)

    TopicWriter(zookeeper).grow("t", added, 0)
    assert asked == [2, 4]
    topic = read(zookeeper)
    assert topic.topic_id == identity
    assert topic.assignment == {0: (1,), 1: (1,), 2: (5,), 3: (5,), 4: (6,)}
    leaders = {key[1]: s.leader for key, s in TopicRegistry(other).states([topic]).items()}
    assert leaders == {0: 1, 1: 1, 2: 5, 3: 5, 4: 6}
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        TopicWriter(zookeeper).grow("nothing", added, 0)


def test_configs_are_replaced_as_a_whole(zookeeper: ZooKeeper) -> None:
    make(zookeeper, a="b", c="d")
    writer = TopicWriter(zookeeper)
    writer.configure("t", {"c": "e"})
    assert TopicConfigs(zookeeper).get("t") == {"c": "e"}
    zookeeper.delete(paths.topic_config("t"))  # as Apache Kafka leaves it
    writer.configure("t", {"f": "g"})
    assert TopicConfigs(zookeeper).get("t") == {"f": "g"}
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        writer.configure("nothing", {})
    TopicRegistry(zookeeper).request_deletes(["t"])
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        writer.configure("t", {})


def test_very_many_partitions_come_grow_and_go(zookeeper: ZooKeeper) -> None:
    """A request to ZooKeeper is at most 1 MB. A topic of 10,000 partitions in one transaction was
    more: ZooKeeper closed the connection, and the broker waited and tried again for ever."""
    count = STEP_PARTITIONS + 1
    long = "x" * 249
    make(zookeeper, long, count)
    topic = read(zookeeper, long)
    assert len(topic.assignment) == count
    assert len(TopicRegistry(zookeeper).states([topic])) == count
    TopicWriter(zookeeper).grow(long, lambda n: [(1,)] * (2 * count - n), 0)
    assert len(epochs(zookeeper, long)) == 2 * count
    TopicRegistry(zookeeper).request_deletes([long])
    TopicWriter(zookeeper).delete(long, office(zookeeper))
    assert TopicRegistry(zookeeper).names() == []


def test_a_creation_that_ended_in_the_middle_is_no_topic(zookeeper: ZooKeeper) -> None:
    zookeeper.ensure(paths.TOPICS)
    zookeeper.create(paths.topic("t"), encode_topic(TopicAssignment("t", uuid.uuid4(), {})))
    zookeeper.ensure(f"{paths.partitions('t')}/0")
    zookeeper.put(paths.partition_state("t", 0), b"left over")
    registry = TopicRegistry(zookeeper)
    assert registry.get("t") is None
    assert registry.get_many(["t"]) == {}
    identity = make(zookeeper, partitions=2)
    assert read(zookeeper).topic_id == identity
    assert epochs(zookeeper) == [0, 0]


def test_changes_are_told_once_until_they_are_read(zookeeper: ZooKeeper) -> None:
    changes = ChangeReader(zookeeper)
    assert changes.unseen() is None
    make(zookeeper, "a")
    assert changes.unseen() is None, "the first reading was not done"
    changes.done()
    assert changes.unseen() == set()
    make(zookeeper, "b")
    make(zookeeper, "c")
    assert changes.unseen() == {"b", "c"}
    assert changes.unseen() == {"b", "c"}
    changes.done()
    assert changes.unseen() == set()


def test_who_was_away_while_changes_were_removed_reads_everything(zookeeper: ZooKeeper) -> None:
    changes, away, present = (ChangeReader(zookeeper) for _ in range(3))
    make(zookeeper, "a")
    for reader in (changes, away, present):
        reader.unseen()
        reader.done()
    for number in range(2 * KEPT + 5):
        zookeeper.commit([change_of([f"topic{number}"])])
        if number == 2 * KEPT - 5:
            present.unseen()
            present.done()
    changes.remove_old()
    assert len(zookeeper.children(paths.CHANGES)) == KEPT
    assert away.unseen() is None
    assert present.unseen() == {f"topic{n}" for n in range(2 * KEPT - 4, 2 * KEPT + 5)}
    present.done()
    for name in zookeeper.children(paths.CHANGES)[-3:]:  # ZooKeeper is an earlier state of itself
        zookeeper.delete(f"{paths.CHANGES}/{name}")
    assert present.unseen() is None


def test_many_nodes_come_in_one_request_in_order(zookeeper: ZooKeeper) -> None:
    """Also those that are not there, and those with nothing in them; and one by one where the
    server does not know such requests."""
    count = STEP_PARTITIONS + 3
    zookeeper.ensure("/many")
    zookeeper.commit([Create(f"/many/{n}", b"%d" % n if n else b"") for n in range(0, count, 2)])
    places = [f"/many/{n}" for n in range(count)]
    expected = [(b"%d" % n if n else b"") if n % 2 == 0 else None for n in range(count)]
    together = zookeeper.read_many(places)
    assert [node.data if node else None for node in together] == expected
    client = zookeeper._client
    if isinstance(client, KazooPort):
        assert not client._no_multi_read
        client._no_multi_read = True
        assert zookeeper.read_many(places) == together
