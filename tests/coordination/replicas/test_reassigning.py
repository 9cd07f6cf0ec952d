"""Moves of replicas for an operator: begun, replaced, cancelled, refused, and not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from partition_nodes import make, state_of, topic_of
from starts import Disk, info, register
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.coordination import TopicWriter, ZooKeeper, paths
from tallymark.coordination.replicas.reassigning import Reassigner
from tallymark.coordination.topics.registry import encode_state
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Assignment

HERE: TopicPartition = ("t", 0)


def brokers(zookeeper: ZooKeeper, *ids: int) -> None:
    for one in ids:
        register(zookeeper, info(one, 9090 + one), Disk())


def reassigner(zookeeper: ZooKeeper) -> Reassigner:
    return Reassigner(zookeeper, lambda: 0)


def names(failed: dict[TopicPartition, KafkaError]) -> dict[TopicPartition, str]:
    return {key: error.name for key, error in failed.items()}


def test_a_move_begins_gets_another_target_and_is_cancelled(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    brokers(zookeeper, 1, 2, 3, 4, 5)
    move = reassigner(zookeeper).move
    assert move({HERE: (4, 1), ("t", 1): (1, 2, 3)}) == {}
    topic = topic_of(zookeeper)
    assert topic.of(0) == Assignment((4, 1, 2, 3), (4,), (2, 3))
    assert topic.of(1) == Assignment((1, 2, 3)), "it is there already"
    assert move({HERE: (5, 1)}) == {}
    assert topic_of(zookeeper).of(0) == Assignment((5, 1, 2, 3), (5,), (2, 3))
    assert move({HERE: None}) == {}
    assert topic_of(zookeeper).of(0) == Assignment((1, 2, 3))
    assert names(move({HERE: None})) == {HERE: "NO_REASSIGNMENT_IN_PROGRESS"}


def test_what_cannot_be_is_refused_alone(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    brokers(zookeeper, 1, 2, 3, 4)
    failed = reassigner(zookeeper).move(
        {
            HERE: (4, 2),
            ("t", 1): (),
            ("t", 2): (9,),
            ("t", 7): (1,),
            ("none", 0): (1,),
        }
    )
    assert names(failed) == {
        ("t", 1): "INVALID_REPLICA_ASSIGNMENT",
        ("t", 2): "INVALID_REPLICA_ASSIGNMENT",
        ("t", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("none", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert topic_of(zookeeper).of(0).adding == (4,)


def test_a_state_that_changes_meanwhile_is_read_again(
    zookeeper: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader writes its ISR all the time: an operator who was slower by a moment got an error,
    and had to ask again."""
    make(zookeeper)
    brokers(zookeeper, 1, 2, 3, 4)
    mover, changed = reassigner(zookeeper), 0
    guard = TopicWriter.guard

    def slower(writer: TopicWriter) -> object:
        nonlocal changed
        found = guard(writer)
        if changed < 3:
            changed += 1
            monkeypatch.setattr(ZooKeeper, "commit", commit_after_a_change)
        return found

    commit = ZooKeeper.commit

    def commit_after_a_change(session: ZooKeeper, *args: object, **more: object) -> object:
        monkeypatch.setattr(ZooKeeper, "commit", commit)
        state = state_of(session)
        isr = (1, 2) if len(state.isr) == 3 else (1, 2, 3)
        path = paths.partition_state(*HERE)
        session.write(path, encode_state(replace(state, isr=isr)), state.version)
        return commit(session, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(TopicWriter, "guard", slower)
    assert mover.move({HERE: (4, 1)}) == {}
    assert changed == 3
    assert topic_of(zookeeper).of(0).adding == (4,)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ANSWER_LOST, Fault.LATE])
def test_an_outcome_that_is_not_known_is_said(fault: Fault) -> None:
    servers = SteppedZooKeeper()
    zookeeper = servers.session("mover")
    make(zookeeper)
    brokers(zookeeper, 1, 2, 3, 4)
    mover = reassigner(zookeeper)
    committed = zookeeper.commit

    def commit(*args: object, **more: object) -> object:
        faults = iter([fault])
        servers.script = lambda name: next(faults, Fault.NONE)
        return committed(*args, **more)  # type: ignore[arg-type]

    zookeeper.commit = commit  # type: ignore[method-assign,assignment]
    failed = mover.move({HERE: (4, 1)})
    assert names(failed) == {HERE: "REQUEST_TIMED_OUT"}
    assert "look at the partition" in str(failed[HERE])
    zookeeper.commit = committed  # type: ignore[method-assign]
    servers.script = lambda name: Fault.NONE
    for late in servers.late:
        late()
    assert mover.move({HERE: (4, 1)}) == {}, "asked again it is done, or was"
    assert topic_of(zookeeper).of(0) == Assignment((4, 1, 2, 3), (4,), (2, 3))
