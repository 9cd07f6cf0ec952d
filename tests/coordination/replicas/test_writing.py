"""Changes of partitions become transactions; each change is done, refused, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from partition_nodes import make, raise_epoch, state_of, topic_of
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.coordination import (
    ChangeReader,
    Check,
    ControllerElection,
    TopicWriter,
    ZooKeeper,
    paths,
)
from tallymark.coordination.replicas.facts import read_facts, steps_of
from tallymark.coordination.replicas.writing import Fate, Outcome, ReplicaWriter
from tallymark.coordination.session.errors import BadVersionError
from tallymark.coordination.topics.changes import Changed
from tallymark.coordination.topics.registry import encode_state, encode_topic
from tallymark.replication.model import (
    Assignment,
    Change,
    ChangeAssignment,
    ChangeState,
)


def led_by(zookeeper: ZooKeeper, leader: int, partition: int = 0) -> ChangeState:
    state = state_of(zookeeper, partition)
    new = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
    return ChangeState(("t", partition), state.version, new, f"broker {leader} leads")


def with_isr(zookeeper: ZooKeeper, isr: tuple[int, ...], **joining: int) -> ChangeState:
    state = state_of(zookeeper)
    epochs = {int(name[1:]): epoch for name, epoch in joining.items()}
    return ChangeState(("t", 0), state.version, replace(state, isr=isr), "lag", epochs)


def write(zookeeper: ZooKeeper, *changes: Change, now_ms: int = 0) -> Sequence[Outcome]:
    guard = TopicWriter(zookeeper).guard()
    return ReplicaWriter(zookeeper).write(changes, [guard], now_ms).outcomes


def fates(outcomes: Sequence[Outcome]) -> list[Fate]:
    return [each.fate for each in outcomes]


def test_a_reassignment_completes_in_one_transaction(zookeeper: ZooKeeper) -> None:
    """An ISR must never name a broker that is not assigned, not even for a moment."""
    make(zookeeper)
    state, before = state_of(zookeeper), Assignment((1, 2, 3))
    after = Assignment((4, 1, 2, 3), (4,), (2, 3))
    moved = ChangeAssignment(("t", 0), before, after, state.version, "moves")
    other = ChangeAssignment(("t", 2), before, after, 0, "moves too")
    assert fates(write(zookeeper, moved, other)) == [Fate.DONE, Fate.DONE]
    topic = topic_of(zookeeper)
    assert [topic.of(index) for index in range(3)] == [after, before, after]
    assert state_of(zookeeper).version == state.version, "the state was checked, not written"
    ended = replace(state, isr=(1,), leader_epoch=1)
    done = ChangeAssignment(("t", 0), after, Assignment((4, 1)), state.version, "done", ended)
    assert fates(write(zookeeper, done)) == [Fate.DONE]
    assert topic_of(zookeeper).of(0) == Assignment((4, 1))
    assert state_of(zookeeper) == replace(ended, version=state.version + 1)


def test_an_assignment_or_a_state_that_has_changed_refuses_both(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    state, before = state_of(zookeeper), Assignment((1, 2, 3))
    stale = ChangeAssignment(("t", 0), Assignment((1, 2)), before, state.version, "x", state)
    late = ChangeAssignment(("t", 1), before, Assignment((1, 2)), 7, "x", state)
    outcomes = write(zookeeper, stale, late)
    assert fates(outcomes) == [Fate.REFUSED] * 2
    assert ["replicas are [1, 2, 3]" in outcomes[0].why, "not 7" in outcomes[1].why] == [True] * 2
    assert topic_of(zookeeper).of(0) == topic_of(zookeeper).of(1) == before
    assert state_of(zookeeper) == state


def test_a_broker_that_started_again_joins_no_isr(zookeeper: ZooKeeper) -> None:
    """KAFKA-14190: a broker came back with an empty disk, and a write that was decided before
    counted it as in sync."""
    make(zookeeper)
    epoch = raise_epoch(zookeeper, 2)
    assert fates(write(zookeeper, with_isr(zookeeper, (1,)))) == [Fate.DONE]
    wish = with_isr(zookeeper, (1, 2), b2=epoch)
    raise_epoch(zookeeper, 2)
    refused = write(zookeeper, wish, led_by(zookeeper, 3, 1))
    assert fates(refused) == [Fate.REFUSED, Fate.DONE], "others of the transaction go on"
    assert "broker 2 has started again" in refused[0].why
    assert state_of(zookeeper).isr == (1,)
    assert fates(write(zookeeper, with_isr(zookeeper, (1, 2), b2=epoch + 1))) == [Fate.DONE]
    assert "broker 9" in write(zookeeper, with_isr(zookeeper, (1, 9), b9=0))[0].why


def test_a_deposed_controller_and_a_deletion_refuse_everything(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    make(zookeeper)
    election = ControllerElection(zookeeper, 1, lambda: 0)
    fence = election.elect().fence
    assert fence is not None
    guard = TopicWriter(zookeeper).guard()
    changes = [led_by(zookeeper, 2), led_by(zookeeper, 2, 1)]
    election.resign()
    ControllerElection(other, 2, lambda: 0).elect()
    written = ReplicaWriter(zookeeper).write(changes, [guard, fence], 0)
    assert (fates(written.outcomes), written.broken) == ([Fate.REFUSED] * 2, fence)
    zookeeper.write(paths.DELETE_TOPICS, b"")
    written = ReplicaWriter(zookeeper).write(changes, [guard], 0)
    assert (fates(written.outcomes), written.broken) == ([Fate.REFUSED] * 2, guard)
    assert state_of(zookeeper).version == 0


def test_what_cannot_be_read_refuses_its_own_change_only(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 4)
    good = led_by(zookeeper, 2, 3)
    zookeeper.write(paths.partition_state("t", 0), b"x")
    zookeeper.delete(paths.partition_state("t", 1))
    bad = [replace(good, partition=("t", index)) for index in (0, 1, 2)]
    outcomes = write(zookeeper, *bad, good, replace(good, partition=("u", 0)), good)
    why = [each.why for each in outcomes]
    assert fates(outcomes[:4]) == [Fate.REFUSED, Fate.REFUSED, Fate.DONE, Fate.DONE]
    assert ["malformed" in why[0], "gone" in why[1], "gone" in why[4]] == [True] * 3


def test_of_two_changes_of_a_partition_the_first_is_done(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    outcomes = write(zookeeper, led_by(zookeeper, 2), led_by(zookeeper, 3))
    assert fates(outcomes) == [Fate.DONE, Fate.REFUSED]
    assert state_of(zookeeper).leader == 2


def test_unknown_fields_stay_where_they_are(zookeeper: ZooKeeper) -> None:
    """A newer broker may have written them: during a rolling upgrade the older one is the
    controller now and then."""
    make(zookeeper)
    topic = replace(topic_of(zookeeper), others={"newer": [1]})
    zookeeper.write(paths.topic("t"), encode_topic(topic))
    state = replace(state_of(zookeeper), others={"newest": 2})
    zookeeper.write(paths.partition_state("t", 0), encode_state(state))
    moved = ChangeAssignment(("t", 1), Assignment((1, 2, 3)), Assignment((1, 2)), 0, "moves")
    assert fates(write(zookeeper, moved, led_by(zookeeper, 2))) == [Fate.DONE] * 2
    assert topic_of(zookeeper).others == {"newer": [1]}
    assert state_of(zookeeper).others == {"newest": 2}


def test_leaders_are_told_at_once_and_isrs_once_a_second(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    make(zookeeper)
    reader, writer = ChangeReader(other), ReplicaWriter(zookeeper)
    reader.unseen_changes()
    reader.done()
    guard = [TopicWriter(zookeeper).guard()]

    def notice() -> Changed | None:
        changed = reader.unseen_changes()
        reader.done()
        return changed

    def notice_of(*partitions: int) -> Changed:
        return Changed(frozenset(), frozenset(("t", index) for index in partitions))

    writer.write([with_isr(zookeeper, (1, 2))], guard, 0)
    assert notice() == notice_of(0), "the first one need not wait"
    writer.write([with_isr(zookeeper, (1,))], guard, 400)
    assert (notice(), writer.notices.due_at_ms()) == (notice_of(), 1000)
    writer.write([led_by(zookeeper, 2, 1)], guard, 500)
    assert notice() == notice_of(1)
    writer.send_notice(999)
    assert notice() == notice_of()
    writer.send_notice(1000)
    assert (notice(), writer.notices.due_at_ms()) == (notice_of(0), None)
    before = Assignment((1, 2, 3))
    moved = ChangeAssignment(("t", 2), before, Assignment((1, 2)), 0, "moves")
    writer.write([moved, led_by(zookeeper, 3)], guard, 1100)
    assert notice() == Changed(frozenset({"t"}), frozenset())


def test_many_states_are_several_transactions(zookeeper: ZooKeeper) -> None:
    """A transaction of more than 1 MB closes the connection, again and again."""
    make(zookeeper, 501)
    moved = led_by(zookeeper, 2)
    changes = [replace(moved, partition=("t", index)) for index in range(501)]
    first = zookeeper.read(paths.CHANGES).children_version
    assert set(fates(write(zookeeper, *changes))) == {Fate.DONE}
    assert zookeeper.read(paths.CHANGES).children_version == first + 2
    large = replace(state_of(zookeeper), others={"x": "y" * 300_000})
    grown = [ChangeState(("t", index), 1, large, "x") for index in range(4)]
    huge = replace(large, others={"x": "y" * 1_000_000})
    outcomes = write(zookeeper, *grown, ChangeState(("t", 4), 1, huge, "x"))
    assert fates(outcomes) == [Fate.DONE] * 4 + [Fate.REFUSED]
    assert "does not fit" in outcomes[4].why


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ANSWER_LOST, Fault.LATE, Fault.SESSION_ENDS])
def test_an_outcome_that_is_not_known_is_said_and_stops_the_rest(fault: Fault) -> None:
    """KAFKA-2729: a controller took a lost answer for a failure, kept the version that it knew, and
    could write nothing for hours. A late transaction changes nothing after a newer decision."""
    server = SteppedZooKeeper()
    zookeeper, other = server.session("a"), server.session("b")
    make(zookeeper, 600)
    moved = led_by(zookeeper, 2)
    changes = [replace(moved, partition=("t", index)) for index in range(600)]
    guard: Check = TopicWriter(zookeeper).guard()
    commands = iter([Fault.NONE, fault])  # one reading of the states, one transaction
    server.script = lambda name: next(commands, Fault.NONE)
    writer = ReplicaWriter(zookeeper)
    outcomes = writer.write(changes, [guard], 0).outcomes
    assert fates(outcomes) == [Fate.UNKNOWN] * 500 + [Fate.REFUSED] * 100
    written = 1 if fault is Fault.ANSWER_LOST else 0
    assert state_of(other).version == written
    newer = write(other, led_by(other, 3))
    assert fates(newer) == [Fate.DONE]
    server.arrive()
    assert (state_of(other).leader, state_of(other, 1).version) == (3, written)


def test_a_broker_that_is_no_replica_any_more_does_not_join(zookeeper: ZooKeeper) -> None:
    """A reassignment was cancelled while the leader was about to take the new replica into the ISR.
    The ISR then named a broker that had deleted its log. The simulation found it (seed 309)."""
    make(zookeeper)
    epoch = raise_epoch(zookeeper, 4)
    original, union = Assignment((1, 2, 3)), Assignment((1, 2, 3, 4), (4,))
    version = state_of(zookeeper).version
    moved = ChangeAssignment(("t", 0), original, union, version, "moves")
    assert fates(write(zookeeper, moved)) == [Fate.DONE]
    joins = with_isr(zookeeper, (1, 2, 3, 4), b4=epoch)
    cancelled = ChangeAssignment(("t", 0), union, original, version, "is cancelled")
    assert fates(write(zookeeper, cancelled)) == [Fate.DONE]
    (outcome,) = write(zookeeper, joins)
    assert (outcome.fate, outcome.stale) == (Fate.REFUSED, {4: epoch})
    assert outcome.why == "broker 4 is no replica any more, and may not join"
    assert state_of(zookeeper).isr == (1, 2, 3)
    assert fates(write(zookeeper, moved)) == [Fate.DONE]
    assert fates(write(zookeeper, joins)) == [Fate.DONE]


def test_a_join_is_checked_in_its_transaction(zookeeper: ZooKeeper) -> None:
    """The move is cancelled between the reading and the transaction of the join."""
    make(zookeeper)
    epoch = raise_epoch(zookeeper, 4)
    original, union = Assignment((1, 2, 3)), Assignment((1, 2, 3, 4), (4,))
    version = state_of(zookeeper).version
    write(zookeeper, ChangeAssignment(("t", 0), original, union, version, "moves"))
    joins = with_isr(zookeeper, (1, 2, 3, 4), b4=epoch)
    steps = steps_of([joins], read_facts(zookeeper, [joins]))
    write(zookeeper, ChangeAssignment(("t", 0), union, original, version, "is cancelled"))
    with pytest.raises(BadVersionError) as error:
        zookeeper.commit(steps)
    assert error.value.path.endswith("/brokers/topics/t")
