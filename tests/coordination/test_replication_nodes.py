"""The nodes that replication is decided from: epochs, notes of brokers, levels, moves, changes."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partition_nodes import raise_epoch

from tallymark.coordination import (
    BadVersionError,
    BrokerInfo,
    BrokerRegistry,
    ChangeReader,
    Create,
    MalformedNodeError,
    NodeExistsError,
    TopicAssignment,
    TopicRegistry,
    TopicWriter,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_epochs import check_epoch, epochs_of
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.feature_levels import read_features, write_features
from tallymark.coordination.topics.changes import Changed
from tallymark.coordination.topics.registry import decode_topic, encode_topic
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.model import Assignment

# -- broker epochs --------------------------------------------------------------------------------


def test_each_start_raises_the_epoch_of_one_broker(zookeeper: ZooKeeper) -> None:
    registry, epochs = BrokerRegistry(zookeeper), list[int]()
    for _ in range(3):
        node = registry.register(BrokerInfo(1, "h", 9092, "a"))
        epochs.append(node.epoch)
        node.release()
    registry.register(BrokerInfo(2, "h", 9093, "b"))
    assert epochs == [2, 4, 6]
    assert epochs_of(zookeeper, [1, 2, 3]) == {1: 6, 2: 2}


def test_what_counts_on_an_earlier_process_fails(zookeeper: ZooKeeper) -> None:
    """KAFKA-14190 in kind: a broker that came back with an empty disk was counted as in sync by a
    write that was decided before."""
    epoch = raise_epoch(zookeeper, 1)
    zookeeper.commit([check_epoch(1, epoch), Create("/first")])
    raise_epoch(zookeeper, 1)
    with pytest.raises(BadVersionError):
        zookeeper.commit([check_epoch(1, epoch), Create("/second")])
    assert not zookeeper.exists("/second")


# -- notes of brokers -----------------------------------------------------------------------------


def test_a_broker_leaves_and_stays(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    notes = BrokerNotes(zookeeper)
    assert notes.leaving() == {}
    notes.leave(1, 7)
    notes.leave(1, 8)
    assert BrokerNotes(other).leaving() == {1: 8}
    notes.stay(1)
    notes.stay(1)
    assert BrokerNotes(other).leaving() == {}


def test_a_note_ends_with_the_session_of_its_writer(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    BrokerNotes(other).leave(1, 7)
    BrokerNotes(other).suspect(2, 3, reporter=1)
    other.close()
    assert BrokerNotes(zookeeper).leaving() == {}
    assert BrokerNotes(zookeeper).suspects() == {}


def test_a_note_of_an_earlier_session_is_made_anew(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    """The session of the process before may end at any moment, and the note with it."""
    BrokerNotes(other).leave(1, 7)
    BrokerNotes(zookeeper).leave(1, 8)
    other.close()
    assert BrokerNotes(zookeeper).leaving() == {1: 8}


def test_several_brokers_suspect_one(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    fired = threading.Event()
    watches = BrokerNotes(other).watch(fired.set)
    fired.clear()
    notes = BrokerNotes(zookeeper)
    notes.suspect(2, 3, reporter=1)
    notes.suspect(2, 4, reporter=3)
    notes.suspect(22, 1, reporter=3)
    assert fired.wait(30)
    assert BrokerNotes(other).suspects() == {2: 4, 22: 1}
    BrokerNotes(other).clear(2)
    assert notes.suspects() == {22: 1}
    for watch in watches:
        watch.cancel()


def test_a_note_that_cannot_be_read_says_nothing(zookeeper: ZooKeeper) -> None:
    for name, content in [("1", b"x"), ("2", b'{"epoch":"a"}'), ("x", b'{"epoch":1}')]:
        zookeeper.create(f"{paths.LEAVING}/{name}", content, parents=True)
    assert BrokerNotes(zookeeper).leaving() == {}


# -- levels of features ---------------------------------------------------------------------------


def test_fields_of_a_later_release_stay_beside_the_levels(zookeeper: ZooKeeper) -> None:
    content = b'{"version":1,"features":{"later.version":2},"later":[1]}'
    zookeeper.create(paths.FEATURES, content, parents=True)
    found = read_features(zookeeper)
    written = write_features(zookeeper, replace(found, levels={REPLICATION: 1, **found.levels}))
    assert written == read_features(zookeeper)
    assert written.epoch == 1
    assert (written.levels, written.others) == (
        {REPLICATION: 1, "later.version": 2},
        {"later": [1]},
    )


def test_levels_are_read_as_they_were_written(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    assert read_features(zookeeper) == Finalized()
    first = write_features(zookeeper, Finalized({REPLICATION: 0}))
    assert first == read_features(other) == Finalized({REPLICATION: 0}, 0)
    second = write_features(other, Finalized({REPLICATION: 1}, first.epoch))
    assert second == read_features(zookeeper) == Finalized({REPLICATION: 1}, 1)


def test_of_two_writers_of_levels_one_is_told(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    write_features(zookeeper, Finalized({REPLICATION: 0}))
    with pytest.raises(NodeExistsError):
        write_features(other, Finalized({REPLICATION: 1}))
    write_features(zookeeper, Finalized({REPLICATION: 1}, 0))
    with pytest.raises(BadVersionError):
        write_features(other, Finalized({REPLICATION: 1}, 0))


@pytest.mark.parametrize("levels", ['{"a":"1"}', '{"a":-1}', '{"a":true}', "[]"])
def test_malformed_levels_are_refused(zookeeper: ZooKeeper, levels: str) -> None:
    """To take them for none would let a broker in that does not understand what is in use."""
    zookeeper.create(paths.FEATURES, f'{{"features":{levels}}}'.encode(), parents=True)
    with pytest.raises(MalformedNodeError):
        read_features(zookeeper)


# -- moves of replicas ----------------------------------------------------------------------------

IDS = st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True).map(tuple)


@given(st.lists(st.tuples(IDS, IDS | st.just(()), IDS | st.just(())), min_size=1, max_size=4))
def test_moves_are_read_as_they_were_written(parts: list[tuple[Any, Any, Any]]) -> None:
    topic = TopicAssignment("t", uuid.UUID(int=7), {}, 3)
    for index, ids in enumerate(parts):
        topic = topic.with_partition(index, Assignment(*ids))
    assert decode_topic("t", encode_topic(topic), 3) == topic
    assert [topic.of(index) for index in range(len(parts))] == [Assignment(*ids) for ids in parts]
    done = topic.with_partition(0, Assignment((1,)))
    assert (done.of(0), len(done.assignment)) == (Assignment((1,)), len(parts))


def test_a_topic_of_an_older_kafka_has_no_moves() -> None:
    topic = decode_topic("t", b'{"version":1,"partitions":{"0":[1,2]}}', 0)
    assert topic.of(0) == Assignment((1, 2))


@pytest.mark.parametrize("side", ['{"9":[1]}', '{"x":[1]}', '{"0":1}', "[]"])
def test_malformed_moves_name_the_node(side: str) -> None:
    content = f'{{"version":3,"partitions":{{"0":[1]}},"adding_replicas":{side}}}'
    with pytest.raises(MalformedNodeError, match="/brokers/topics/t"):
        decode_topic("t", content.encode(), 0)


def test_new_partitions_leave_moves_as_they_are(zookeeper: ZooKeeper) -> None:
    """A topic that grew while it moved would have forgotten the move: its new replicas would have
    been taken for old ones."""
    writer, registry = TopicWriter(zookeeper), TopicRegistry(zookeeper)
    writer.create("t", uuid.uuid4(), {0: [1]})
    topic = registry.get("t")
    assert topic is not None
    moving = topic.with_partition(0, Assignment((2, 1), (2,), (1,)))
    zookeeper.write(paths.topic("t"), encode_topic(moving), topic.version)
    writer.grow("t", lambda there: [(1,)] * (3 - there), 0)
    grown = registry.get("t")
    assert grown is not None
    assert [grown.of(index) for index in range(3)] == [
        Assignment((2, 1), (2,), (1,)),
        Assignment((1,)),
        Assignment((1,)),
    ]


# -- changes --------------------------------------------------------------------------------------


def changed(zookeeper: ZooKeeper, writer: TopicWriter, *partitions: int) -> None:
    guard = writer.guard()
    topic = TopicRegistry(zookeeper).get("t")
    assert topic is not None
    states = TopicRegistry(zookeeper).states([topic])
    assert not writer.put_states({("t", index): states["t", index] for index in partitions}, guard)


def test_changes_of_states_name_their_partitions(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    writer = TopicWriter(zookeeper)
    writer.create("t", uuid.uuid4(), {index: [1] for index in range(4)})
    reader = ChangeReader(other)
    assert reader.unseen_changes() is None
    reader.done()
    changed(zookeeper, writer, 3, 0)
    changed(zookeeper, writer, 3, 1)
    expected = Changed(frozenset(), frozenset({("t", 0), ("t", 1), ("t", 3)}))
    assert reader.unseen_changes() == expected
    assert reader.unseen() == {"t"}
    writer.configure("t", {"retention.ms": "5"})
    assert reader.unseen_changes() == Changed(frozenset({"t"}), frozenset())


def test_changes_of_an_older_broker_mean_the_whole_topic(zookeeper: ZooKeeper) -> None:
    reader = ChangeReader(zookeeper)
    zookeeper.ensure(paths.CHANGES)
    reader.unseen()
    reader.done()
    content = b'{"version":1,"topics":["t"]}'
    zookeeper.commit([Create(f"{paths.CHANGES}/change_", content, numbered=True)])
    assert reader.unseen_changes() == Changed(frozenset({"t"}), frozenset())
    bad = b'{"version":1,"topics":["t"],"partitions":{"t":["0"]}}'
    zookeeper.commit([Create(f"{paths.CHANGES}/change_", bad, numbered=True)])
    assert reader.unseen_changes() is None, "what is not understood is read in whole"
