"""The member's state machine, decision by decision; the simulation puts many together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from group_driver import ME, T0, T1, T2, Driver

from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import GroupMember
from tallymark.client.group.state_machine.state import Phase, Setup, State
from tallymark.client.group.state_machine.steps import backoff_ms
from tallymark.client.group.state_machine.timers import next_due_ms
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import CODES


def test_the_way_into_a_group() -> None:
    its = Driver()
    assert its.tick() == [act.FindCoordinator()]
    (join,) = its.tell(ev.Found())
    assert join == act.Join(1, "", -1, ("t",), (), "it starts")
    (again,) = its.tell(ev.Refused(1, CODES["MEMBER_ID_REQUIRED"], "me"))
    assert again == replace(join, ticket=2, member_id="me")
    joined = ev.Joined(2, "me", 7, "range", leads=True, members=ME)
    assert its.tell(joined) == [act.ReadTopics(3, ("t",))]
    (sync,) = its.tell(ev.Topics(3, {"t": (0, 1)}))
    assert sync == act.Sync(4, "me", 7, "range", {"me": [T0, T1]})
    assert its.tell(ev.Synced(4, (T0, T1))) == [act.Load(5, (T0, T1))]
    assert its.tell(ev.Done(5)) == [act.StartFetchers((T0, T1))]
    assert its.state.phase is Phase.STABLE


def test_who_does_not_lead_hands_in_nothing() -> None:
    its = Driver()
    its.tell(ev.Found())
    (sync,) = its.tell(ev.Joined(its.ticket, "me", 7, "range"))
    assert isinstance(sync, act.Sync)
    assert sync.division == {}


def test_a_leader_that_shall_keep_the_assignment_hands_in_nothing() -> None:
    """KIP-814: a static leader that came back; what it sees first is what was divided."""
    its = Driver(static=True)
    its.tell(ev.Found())
    (sync,) = its.tell(ev.Joined(its.ticket, "me", 7, "range", True, ME, keep=True))
    assert isinstance(sync, act.Sync)
    assert sync.division == {}
    its.tell(ev.Synced(its.ticket, ()))
    assert its.tell(ev.Looked({"t": (0, 1)})) == []
    (join,) = its.tell(ev.Looked({"t": (0, 1, 2)}))
    assert isinstance(join, act.Join)


def test_eager_gives_everything_up_before_it_joins() -> None:
    its = Driver().stable(T0, T1)
    assert its.beat("REBALANCE_IN_PROGRESS") == [
        act.StopFetchers((T0, T1)),
        act.Release(its.ticket, (T0, T1)),
    ]
    forget, join = its.tell(ev.Done(its.ticket))
    assert forget == act.Forget((T0, T1))
    assert isinstance(join, act.Join)
    assert join.owned == ()
    assert join.generation == 1


def test_cooperative_keeps_what_does_not_move_and_joins_again() -> None:
    its = Driver("cooperative-sticky").stable(T0, T1)
    (join,) = its.beat("REBALANCE_IN_PROGRESS")
    assert isinstance(join, act.Join)
    assert join.owned == (T0, T1)
    its.tell(ev.Joined(its.ticket, "me", 2, "cooperative-sticky"))
    assert its.tell(ev.Synced(its.ticket, (T0, T2))) == [
        act.StopFetchers((T1,)),
        act.Release(its.ticket, (T1,)),
    ]
    assert its.tell(ev.Done(its.ticket)) == [act.Forget((T1,)), act.Load(its.ticket, (T2,))]
    start, join = its.tell(ev.Done(its.ticket))
    assert start == act.StartFetchers((T2,))
    assert isinstance(join, act.Join)
    assert join.owned == (T0, T2)
    assert "given up 1" in join.reason


def test_with_an_eager_assignor_beside_it_cooperative_is_eager() -> None:
    its = Driver("cooperative-sticky", "range").stable(T0)
    assert isinstance(its.beat("REBALANCE_IN_PROGRESS")[0], act.StopFetchers)


@pytest.mark.parametrize("name", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_who_is_out_drops_everything_without_a_commit(name: str) -> None:
    its = Driver().stable(T0)
    stop, forget, join = its.beat(name)
    assert (stop, forget) == (act.StopFetchers((T0,)), act.Forget((T0,)))
    assert isinstance(join, act.Join)
    assert join.member_id == ("" if name == "UNKNOWN_MEMBER_ID" else "me")
    assert join.generation == -1


def test_who_is_out_while_it_gives_up_waits_for_the_application() -> None:
    its = Driver().stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    assert its.beat("UNKNOWN_MEMBER_ID") == [act.StopFetchers((T0,))]
    forget, join = its.tell(ev.Done(its.ticket))
    assert forget == act.Forget((T0,))
    assert isinstance(join, act.Join)
    assert join.member_id == ""


def test_an_old_generations_heartbeat_says_nothing_while_joining() -> None:
    """The next generation has begun, and the join's answer is on its way."""
    its = Driver("cooperative-sticky").stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    assert its.state.phase is Phase.JOINING
    assert its.beat("ILLEGAL_GENERATION") == []
    assert its.state.owned == {T0}


@pytest.mark.parametrize("name", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_coordinator_that_moved_is_looked_for_and_nothing_stops(name: str) -> None:
    its = Driver().stable(T0)
    assert its.beat(name) == [act.FindCoordinator()]
    its.tell(ev.Found())
    assert its.state.phase is Phase.STABLE
    assert its.state.owned == {T0}
    assert its.state.beat_out


def test_silence_pauses_and_a_sign_of_life_resumes() -> None:
    its = Driver().stable(T0)
    its.tell(ev.BeatFailed())
    assert act.Pause() not in its.tick(4999)
    assert act.Pause() in its.tick(1)
    its.tell(ev.Found())
    assert act.Resume() in its.beat()


def test_a_join_that_got_lost_does_not_read_on_beyond_the_rebalance() -> None:
    """Heartbeats were answered ("rebalance"), so it read on; the join had got lost, and when the
    rebalance timed out its partitions were read by another member, too."""
    its = Driver("cooperative-sticky", rebalance_ms=20_000).stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    for _ in range(4):
        assert act.Pause() not in its.tick(4_500)
        assert its.beat("REBALANCE_IN_PROGRESS") == []
    assert act.Pause() in its.tick(2_000)


def test_a_leader_hands_on_what_a_restarted_owner_had_given_up() -> None:
    """A static member that was started again between giving up and joining again has nothing to
    give up any more, and begins no rebalance: the partitions stayed without an owner."""
    its = Driver("cooperative-sticky")
    its.tell(ev.Found())
    members = {"me": GroupMember(("t",), (T0, T1), 1), "you": GroupMember(("t",))}
    its.tell(ev.Joined(its.ticket, "me", 2, "cooperative-sticky", True, members))
    (sync,) = its.tell(ev.Topics(its.ticket, {"t": (0, 1)}))
    assert isinstance(sync, act.Sync)
    assert sync.division == {"me": [T0], "you": []}
    its.tell(ev.Synced(its.ticket, (T0,)))
    its.tell(ev.Done(its.ticket))
    (join,) = its.tell(ev.Looked({"t": (0, 1)}))
    assert isinstance(join, act.Join)


def test_what_the_coordinator_refuses_for_good_ends_it() -> None:
    for name in ("FENCED_INSTANCE_ID", "GROUP_AUTHORIZATION_FAILED"):
        its = Driver().stable(T0)
        stop, forget, fail = its.beat(name)
        assert (stop, forget) == (act.StopFetchers((T0,)), act.Forget((T0,)))
        assert fail == act.Fail(CODES[name])
        assert its.state.phase is Phase.CLOSED
    its = Driver()
    its.tell(ev.Found())
    refused = ev.Refused(its.ticket, CODES["INCONSISTENT_GROUP_PROTOCOL"])
    assert its.tell(refused) == [act.Fail(refused.code)]


def test_what_is_refused_again_and_again_is_not_asked_in_a_loop() -> None:
    its = Driver()
    its.tell(ev.Found())
    pauses = []
    for _ in range(6):
        its.tell(ev.Refused(its.ticket, CODES["UNKNOWN_MEMBER_ID"]))
        due = next_due_ms(its.state)
        assert due is not None
        pauses.append(due - its.now)
        (join,) = its.tick(pauses[-1])
        assert isinstance(join, act.Join)
    assert pauses == [0, 200, 400, 800, 1600, 2000]
    assert backoff_ms(100, 99) == 2000


def test_an_answer_to_something_older_is_ignored() -> None:
    its = Driver()
    its.tell(ev.Found())
    old = its.ticket
    its.tell(ev.Failed(old))
    assert its.tell(ev.Joined(old, "me", 3, "range")) == []
    assert its.state.generation == -1


def test_a_load_that_fails_is_tried_again_and_ends_with_the_generation() -> None:
    its = Driver("cooperative-sticky").stable(T0)
    its.beat("REBALANCE_IN_PROGRESS")
    its.tell(ev.Joined(its.ticket, "me", 2, "cooperative-sticky"))
    its.tell(ev.Synced(its.ticket, (T0, T1)))
    its.tell(ev.Failed(its.ticket))
    assert its.tick(100) == [act.Load(its.ticket, (T1,))]
    (join,) = its.beat("REBALANCE_IN_PROGRESS")
    assert isinstance(join, act.Join)
    assert join.owned == (T0,)


def test_a_slow_application_is_out_until_it_asks() -> None:
    its = Driver().stable(T0)
    assert its.tell(ev.Slow()) == [act.StopFetchers((T0,)), act.Release(its.ticket, (T0,))]
    assert its.tell(ev.Done(its.ticket)) == [act.Forget((T0,)), act.Leave(its.ticket, "me")]
    assert its.tick(60_000) == []
    (join,) = its.tell(ev.Asked())
    assert isinstance(join, act.Join)
    assert join.member_id == ""


def test_an_application_that_asks_while_it_is_given_up_joins_again() -> None:
    its = Driver().stable(T0)
    its.tell(ev.Slow())
    its.tell(ev.Asked())
    forget, join = its.tell(ev.Done(its.ticket))
    assert forget == act.Forget((T0,))
    assert isinstance(join, act.Join)
    assert join.member_id == "me"


def test_leaving_stores_then_tells_the_coordinator() -> None:
    its = Driver().stable(T0)
    assert its.tell(ev.Stop()) == [act.StopFetchers((T0,)), act.Release(its.ticket, (T0,))]
    assert its.tell(ev.Done(its.ticket)) == [act.Forget((T0,)), act.Leave(its.ticket, "me")]
    assert its.tell(ev.Done(its.ticket)) == [act.Close()]
    assert its.tell(ev.Found()) == []


def test_a_static_member_and_one_without_a_coordinator_just_go() -> None:
    static = Driver(static=True).stable(T0)
    static.tell(ev.Stop())
    assert static.tell(ev.Done(static.ticket)) == [act.Forget((T0,)), act.Close()]
    lost = Driver().stable()
    lost.tell(ev.BeatFailed())
    assert lost.tell(ev.Stop()) == [act.Close()]


def test_a_filter_reads_the_topics_first_and_looks_for_new_ones() -> None:
    its = Driver()
    its.state = State(Setup(Subscription({"t.*": 1}, is_filter=True)))
    assert its.tell(ev.Found()) == [act.ReadTopics(1, None)]
    (join,) = its.tell(ev.Topics(1, {"u": (0,), "t2": (0,), "t1": (0,)}))
    assert isinstance(join, act.Join)
    assert join.topics == ("t1", "t2")
    its.tell(ev.Joined(its.ticket, "me", 1, "range"))
    its.tell(ev.Synced(its.ticket, ()))
    assert its.tell(ev.Looked({"t1": (0,), "t2": (0, 1)})) == []  # the leader's affair
    assert its.tell(ev.Looked(None)) == []
    assert its.tell(ev.Looked({"t1": (0,)})) == [act.ReadTopics(its.ticket, None)]


def test_partitions_of_topics_that_nobody_asked_for_are_left_alone() -> None:
    its = Driver()
    its.tell(ev.Found())
    its.tell(ev.Joined(its.ticket, "me", 1, "range"))
    assert its.tell(ev.Synced(its.ticket, (("x", 0),))) == []
    assert its.state.owned == frozenset()
