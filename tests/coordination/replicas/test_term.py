"""A controller's term: what it writes in a round, what it reads again, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from partition_nodes import make, state_of
from starts import Disk, info, register, replicated
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.coordination import ChangeReader, ControllerElection, TopicWriter, ZooKeeper, paths
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.replicas.term import OFF, PAUSE_MS, Round, Term
from tallymark.coordination.replicas.writing import Fate
from tallymark.coordination.session.nodes import Step
from tallymark.coordination.topics.registry import encode_state
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.balance import Balancing
from tallymark.replication.election import Tails
from tallymark.replication.model import DEFAULTS, NO_LEADER, PartitionView, Tail


def nobody(
    views: Mapping[TopicPartition, PartitionView], asked: Mapping[TopicPartition, tuple[int, ...]]
) -> Mapping[TopicPartition, Tails]:
    raise AssertionError(asked)


def elected(
    zookeeper: ZooKeeper,
    broker: int = 9,
    now_ms: Callable[[], int] = lambda: 0,
    balancing: Balancing = OFF,
) -> Term:
    controller = ControllerElection(zookeeper, broker, lambda: 0).elect()
    return Term(
        zookeeper, controller, nobody, lambda info: True, now_ms, DEFAULTS, balancing=balancing
    )


def brokers(zookeeper: ZooKeeper, *ids: int) -> dict[int, BrokerNode]:
    return {one: register(zookeeper, info(one, 9090 + one), Disk()) for one in ids}


def fates(done: Round) -> list[Fate]:
    return [one.fate for one in done.outcomes]


def test_a_leader_that_is_gone_is_replaced(zookeeper: ZooKeeper) -> None:
    make(zookeeper)
    up = brokers(zookeeper, 1, 2, 3)
    term = elected(zookeeper)
    assert term.round() == Round([], deposed=False, wait_ms=None)
    up[1].release()
    reader = ChangeReader(zookeeper)
    reader.unseen_changes()
    reader.done()
    done = term.round()
    assert (fates(done), done.wait_ms) == ([Fate.DONE] * 3, 0)
    assert done.outcomes[0].why == "broker 1 is not registered"
    state = state_of(zookeeper)
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))
    assert state.controller_epoch == 1
    told = reader.unseen_changes()
    assert told is not None
    assert told.partitions == {("t", 0), ("t", 1), ("t", 2)}
    assert term.round().wait_ms is None


def test_who_leaves_or_is_suspected_is_relieved(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 1)
    up = brokers(zookeeper, 1, 2, 3)
    term, notes = elected(zookeeper), BrokerNotes(zookeeper)
    notes.leave(1, up[1].epoch)
    assert fates(term.round()) == [Fate.DONE]
    assert (state_of(zookeeper).leader, state_of(zookeeper).isr) == (2, (2, 3))
    notes.suspect(2, up[2].epoch, 3)
    TopicWriter(zookeeper).configure("t", {"min.insync.replicas": "2"})
    assert fates(term.round()) == [Fate.DONE]
    assert (state_of(zookeeper).leader, state_of(zookeeper).isr) == (3, (2, 3)), "2 is the least"


def test_a_leader_hears_at_once_of_a_member_that_the_controller_took_out(
    zookeeper: ZooKeeper,
) -> None:
    """The story: two ISR changes within a second; the notice of the second one was due later, and
    the controller stopped before. The leader waited for the member that was gone until
    replica.lag.time.max.ms."""
    make(zookeeper, 1)
    up = brokers(zookeeper, 1, 2, 3)
    TopicWriter(zookeeper).configure("t", {"min.insync.replicas": "1"})
    term = elected(zookeeper)
    for gone in (3, 2):
        term.round()
        reader = ChangeReader(zookeeper)
        reader.unseen_changes()
        reader.done()
        up[gone].release()
        assert fates(term.round()) == [Fate.DONE]
        told = reader.unseen_changes()
        assert told is not None
        assert told.partitions == {("t", 0)}


def test_leads_go_back_to_a_broker_that_is_there_again(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 4)
    up = brokers(zookeeper, 1, 2, 3)
    now = [0]
    term = elected(zookeeper, now_ms=lambda: now[0], balancing=Balancing(every_ms=5000))
    term.round()
    up[1].release()
    assert fates(term.round()) == [Fate.DONE] * 4
    brokers(zookeeper, 1)
    whole = replace(state_of(zookeeper), isr=(1, 2, 3))
    for partition in range(3):
        path = paths.partition_state("t", partition)
        zookeeper.write(path, encode_state(whole), whole.version)
    TopicWriter(zookeeper).configure("t", {})  # tells of the topic
    assert term.round() == Round([], deposed=False, wait_ms=5000)
    now[0] = 4999
    assert term.round().wait_ms == 1
    now[0] = 5000
    done = term.round()
    assert [one.why for one in done.outcomes] == ["broker 1 is the preferred leader"] * 3
    assert fates(done) == [Fate.DONE] * 3
    assert [state_of(zookeeper, one).leader for one in range(4)] == [1, 1, 1, 2], "3 is not in sync"
    assert term.round().wait_ms == 5000
    now[0] = -1_000_000
    assert term.round().wait_ms == 5000, "a clock that was set back delays nothing"


def test_a_topic_comes_and_goes_during_the_term(zookeeper: ZooKeeper) -> None:
    make(zookeeper, 1)
    up = brokers(zookeeper, 2, 3)
    term = elected(zookeeper)
    assert fates(term.round()) == [Fate.DONE]
    make(zookeeper, 2, "u")
    assert {one.change.partition for one in term.round().outcomes} == {("u", 0), ("u", 1)}
    fence = ControllerElection(zookeeper, 9, lambda: 0).elect().fence
    assert fence is not None
    TopicWriter(zookeeper).delete("u", fence)
    assert term.round() == Round([], deposed=False, wait_ms=None)
    zookeeper.delete_tree(paths.topic("t"))  # by another program: no change tells of it
    up[2].release()
    assert [one.why for one in term.round().outcomes] == ["the partition is gone"]
    assert not term.round().outcomes


def test_a_picture_that_was_old_is_read_again(zookeeper: ZooKeeper) -> None:
    """A leader's new ISR is told up to a second later. What was decided from the old one was
    refused, again and again."""
    make(zookeeper, 1)
    up = brokers(zookeeper, 1, 2, 3)
    term = elected(zookeeper)
    term.round()
    state = state_of(zookeeper)
    untold = encode_state(replace(state, isr=(1, 3)))
    zookeeper.write(paths.partition_state("t", 0), untold, state.version)
    up[1].release()
    done = term.round()
    assert (fates(done), done.wait_ms) == ([Fate.REFUSED], PAUSE_MS)
    assert fates(term.round()) == [Fate.DONE]
    assert state_of(zookeeper).leader == 3, "2 has left the ISR"


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.LOST, Fault.LATE])
def test_an_unknown_outcome_is_read_before_the_next_decision(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-2729: the transaction was executed, its answer lost, and the controller went on with
    the version that it knew. Or it was not, or is executed later."""
    server = SteppedZooKeeper()
    admin, mine = server.session("admin"), server.session("controller")
    replicated(admin)
    up = brokers(admin, 1, 2, 3)
    term = elected(mine)
    term.round()
    up[1].release()
    epoch = state_of(admin).leader_epoch
    commit, sent = mine.commit, list[int]()

    def of_which_one_answer_is_lost(steps: Sequence[Step], session: int = 0) -> None:
        sent.append(len(steps))
        answered = len(sent) > 1
        server.script = lambda name: Fault.NONE if answered else fault
        try:
            commit(steps, session)
        finally:
            server.script = lambda name: Fault.NONE

    monkeypatch.setattr(mine, "commit", of_which_one_answer_is_lost)
    done = term.round()
    assert (fates(done), done.wait_ms) == ([Fate.UNKNOWN] * 3, PAUSE_MS)
    executed = fault is Fault.ANSWER_LOST
    assert state_of(admin).leader == (2 if executed else 1)
    assert fates(term.round()) == ([] if executed else [Fate.DONE] * 3)
    server.arrive()
    assert (state_of(admin).leader, state_of(admin).leader_epoch) == (2, epoch + 1)
    assert term.round() == Round([], deposed=False, wait_ms=None)
    up[2].release()
    assert fates(term.round()) == [Fate.DONE] * 3


def test_a_deposed_controller_changes_nothing(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    make(zookeeper)
    up = brokers(zookeeper, 1, 2, 3)
    term = elected(zookeeper)
    term.round()
    ControllerElection(zookeeper, 9, lambda: 0).resign()
    second = elected(other, 8)
    up[1].release()
    done = term.round()
    assert (fates(done), done.deposed) == ([Fate.REFUSED] * 3, True)
    assert state_of(zookeeper).version == 0
    assert fates(second.round()) == [Fate.DONE] * 3
    assert state_of(zookeeper).controller_epoch == 2


def test_the_longest_of_logs_that_lost_a_tail_is_asked_for(zookeeper: ZooKeeper) -> None:
    """A power failure of all. The tails in the node may be older than the logs."""
    replicated(zookeeper)
    for one in (1, 2, 3):
        register(zookeeper, info(one, 9090 + one), Disk(intact=False))
    asked: list[tuple[int, ...]] = []
    tails = {1: Tail(0, 5), 2: Tail(0, 9), 3: Tail(0, 7)}

    def ask(
        views: Mapping[TopicPartition, PartitionView],
        wanted: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        assert views.keys() == wanted.keys()
        assert {view.state.leader for view in views.values()} == {NO_LEADER}
        asked.extend(wanted.values())
        return dict.fromkeys(wanted, tails)

    controller = ControllerElection(zookeeper, 9, lambda: 0).elect()
    term = Term(zookeeper, controller, ask, lambda info: False, lambda: 0)
    assert fates(term.round()) == [Fate.DONE] * 3
    state = state_of(zookeeper)
    assert (asked, state.leader, state.isr, state.unclean) == ([(1, 2, 3)] * 3, 2, (2,), True)
    assert set(state.incomplete) == {1, 3}
