"""The controller's picture is read from the nodes; what cannot be read is left out alone."""

from __future__ import annotations

import pytest
from partition_nodes import make
from starts import Disk, info, register

from tallymark.coordination import BrokerInfo, TopicWriter, ZooKeeper, paths
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.replication.model import Assignment, BrokerView, TopicSettings


def test_partitions_have_the_settings_of_their_topic(zookeeper: ZooKeeper) -> None:
    for name in ("a", "b", "odd"):
        make(zookeeper, 1, name)
    writer = TopicWriter(zookeeper)
    settings = {"min.insync.replicas": "2", "unclean.leader.election.enable": "TRUE"}
    writer.configure("a", settings)
    odd = {"min.insync.replicas": "9" * 5000, "unclean.leader.election.enable": "maybe"}
    writer.configure("odd", odd)
    views = PictureReader(zookeeper, TopicSettings(min_insync=3)).views()
    assert {key: (view.min_insync, view.unclean_allowed) for key, view in views.items()} == {
        ("a", 0): (2, True),
        ("b", 0): (3, False),
        ("odd", 0): (3, False),
    }
    view = views["a", 0]
    assert (view.assignment, view.state.isr) == (Assignment((1, 2, 3)), (1, 2, 3))
    assert set(PictureReader(zookeeper).views(["b", "gone"])) == {("b", 0)}


def test_what_cannot_be_read_leaves_itself_out(
    zookeeper: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """With unreadable settings the default minimum of 1 would let an ISR of a topic with another
    one shrink to its leader."""
    for name in ("settings", "state", "topic", "whole"):
        make(zookeeper, 2, name)
    zookeeper.put(paths.topic_config("settings"), b"[]")
    zookeeper.write(paths.partition_state("state", 1), b"{")
    zookeeper.write(paths.topic("topic"), b"\xff")
    reader = PictureReader(zookeeper)
    left = {("state", 0), ("whole", 0), ("whole", 1)}
    assert set(reader.views()) == set(reader.views()) == left
    told = [line.getMessage() for line in caplog.records if "is left out" in line.getMessage()]
    assert len(told) == 3, told
    zookeeper.delete(paths.topic_config("settings"))
    assert set(reader.views()) == left | {("settings", 0), ("settings", 1)}


def test_who_leaves_and_who_is_suspected(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    """A report of an earlier process, and one of a broker that answers, is no suspicion."""
    epochs = {one: register(zookeeper, info(one, 9090 + one), Disk()).epoch for one in range(1, 5)}
    notes = BrokerNotes(other)
    notes.leave(1, epochs[1])
    notes.leave(2, epochs[2] - 2)
    notes.suspect(2, epochs[2], 1)
    notes.suspect(3, epochs[3], 1)
    notes.suspect(4, epochs[4] - 2, 1)
    notes.suspect(9, 7, 1)
    tried: list[int] = []

    def is_refused(broker: BrokerInfo) -> bool:
        tried.append(broker.id)
        return broker.id == 3

    brokers, suspects = PictureReader(zookeeper).brokers(is_refused)
    assert brokers == {one: BrokerView(one, epochs[one], leaving=one == 1) for one in epochs}
    assert (set(suspects), tried) == ({3}, [2, 3])
    assert set(notes.suspects()) == {3}, "what was not confirmed is removed"
