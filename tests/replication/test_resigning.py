"""A leader whose own log is bad gives up the lead: when, and what it leaves behind."""

from __future__ import annotations

from dataclasses import replace

from one_leader import BROKERS, LAG_MS, fetch, leader, wish, written

from tallymark.replication.model import NO_LEADER, Tail

TAIL = Tail(0, 7)


def test_it_names_no_leader_and_leaves_the_isr_with_what_it_has_for_sure() -> None:
    one = leader()
    fetch(one, 2, 10)
    one.resign(TAIL)
    change = wish(one)
    assert change.expected == 7
    assert (change.state.leader, change.state.leader_epoch) == (NO_LEADER, 4)
    assert change.state.isr == (2, 3)
    assert change.state.incomplete == {1: TAIL}
    assert change.why == "broker 1 resigns: its log cannot be used from offset 7 on"
    one.answered(written(change), 0)
    assert one.is_lost
    assert one.wish() is None


def test_it_leads_on_while_no_other_member_could_lead() -> None:
    """To resign then would take the partition offline, without any use."""
    one = leader()
    one.resign(TAIL)
    assert one.wish() is None, "no follower has asked in this epoch"
    fetch(one, 2, 4)
    one.tick(0)
    assert one.wish() is None, "it asks for what is committed: another leader has to explain that"
    fetch(one, 2, 10)
    one.brokers_changed({**BROKERS, 2: replace(BROKERS[2], leaving=True)}, 0)
    assert one.wish() is None, "it is about to leave"
    del (gone := dict(BROKERS))[2]
    one.brokers_changed(gone, 0)
    assert one.wish() is None, "it is dead"
    one.brokers_changed(BROKERS, 0)
    assert wish(one).state.leader == NO_LEADER


def test_one_that_is_not_in_the_isr_or_is_incomplete_is_no_successor() -> None:
    one = leader(isr=(1, 3), incomplete={3: Tail(0, 3)})
    for broker in (2, 3):
        fetch(one, broker, 10)
    one.resign(TAIL)
    assert wish(one).state.leader == 1, "the ISR grows first"


def test_one_that_has_not_asked_for_long_is_no_successor() -> None:
    one = leader(min_insync=3)
    fetch(one, 2, 10)
    one.tick(2 * LAG_MS)
    one.resign(TAIL)
    assert one.wish() is None
    fetch(one, 2, 10, 2 * LAG_MS)
    one.tick(2 * LAG_MS)
    assert wish(one).state.leader == NO_LEADER


def test_one_that_cannot_catch_up_for_the_corrupt_batch_is_a_successor() -> None:
    """Found by the simulation: all followers asked for the corrupt batch, for longer than the lag
    time. None was in sync then, the leader led on, and nothing was committed any more."""
    one = leader(min_insync=3)
    one.appended(20)
    for now_ms in (0, LAG_MS, 2 * LAG_MS):
        fetch(one, 2, 12, now_ms)
        fetch(one, 3, 12, now_ms)
        one.tick(now_ms)
    assert one.in_sync == 1
    one.resign(Tail(3, 12))
    assert wish(one).state.leader == NO_LEADER


def test_what_is_deleted_meanwhile_is_no_reason_any_more() -> None:
    one = leader()
    one.resign(TAIL)
    assert one.resigns
    one.resign(None)
    fetch(one, 2, 10)
    fetch(one, 3, 10)
    assert not one.resigns
    assert one.wish() is None


def test_a_resignation_of_unknown_outcome_is_read_again_before_another_one() -> None:
    one = leader()
    fetch(one, 2, 10)
    one.resign(TAIL)
    change = wish(one)
    one.answered(None, 0)
    one.tick(1_000)
    assert one.wish() is None
    one.answered(replace(one.state), 1_000)  # the node is as it was
    again = wish(one)
    assert (again.expected, again.state) == (change.expected, change.state)


def test_members_that_were_incomplete_stay_so() -> None:
    one = leader(isr=(1, 2), incomplete={3: Tail(0, 2)})
    fetch(one, 2, 10)
    one.resign(TAIL)
    assert wish(one).state.incomplete == {1: TAIL, 3: Tail(0, 2)}
