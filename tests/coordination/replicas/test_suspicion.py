"""Who is suspected, how often that is reported, and what speaks against it."""

from __future__ import annotations

from dataclasses import replace

from tallymark.coordination.cluster.suspicion import (
    AGAIN_MS,
    MOST_REPORTS,
    NOT_BELIEVED_MS,
    Reports,
    Suspicions,
)
from tallymark.replication import planner
from tallymark.replication.changes import settled
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    ChangeState,
    PartitionState,
    PartitionView,
    Picture,
)

KEY = ("t", 0)


def picture(isr: tuple[int, ...] = (1, 2, 3), suspects: set[int] | None = None) -> Picture:
    view = PartitionView(Assignment((1, 2, 3)), PartitionState(1, 0, isr, version=0), 2)
    brokers = {one: BrokerView(one, 7) for one in (1, 2, 3)}
    return Picture(brokers, {KEY: view}, 1, frozenset(suspects or ()))


def planned(before: Picture) -> list[ChangeState]:
    return [one for one in planner.plan(before).changes if isinstance(one, ChangeState)]


def rejoins(after: Picture, broker: int) -> Picture:
    """The leader takes the broker into the ISR again."""
    view = after.partitions[KEY]
    state = replace(view.state, isr=(*view.state.isr, broker))
    return replace(after, partitions={KEY: replace(view, state=state)})


def test_the_same_process_is_reported_again_after_a_while_only() -> None:
    reports = Reports()
    assert reports.is_due(1, 7, 0)
    assert not reports.is_due(1, 7, AGAIN_MS - 1)
    assert reports.is_due(1, 8, 1), "another process under the same id"
    assert reports.is_due(2, 7, 1)
    assert reports.is_due(1, 7, AGAIN_MS)
    assert not reports.is_due(1, 7, AGAIN_MS + 1)


def test_reports_take_bounded_memory() -> None:
    reports = Reports()
    for epoch in range(MOST_REPORTS + 1):
        assert reports.is_due(1, epoch, 0)
    assert not reports.is_due(1, MOST_REPORTS, 1)
    assert reports.is_due(1, 0, 1), "the oldest is forgotten"


def test_a_suspected_leader_is_replaced_and_leaves_the_isr() -> None:
    (change,) = planned(picture(suspects={1}))
    assert (change.state.leader, change.state.isr) == (2, (2, 3))


def test_the_isr_keeps_its_minimum_with_a_suspect_in_it() -> None:
    (change,) = planned(picture(isr=(1, 2), suspects={1}))
    assert (change.state.leader, change.state.isr) == (2, (1, 2))
    assert planned(settled([change], picture(isr=(1, 2), suspects={1}))) == []


def test_a_suspect_leads_on_where_no_other_member_is_up() -> None:
    changes = planned(picture(suspects={1, 2, 3}))
    assert [(one.state.leader, one.state.isr) for one in changes] == [(1, (1, 2))]


def test_a_suspicion_stands_while_the_suspect_stays_out() -> None:
    suspicions, before = Suspicions(), picture(suspects={1})
    assert suspicions.standing(before, 0) == {1}
    done = planned(before)
    suspicions.written(done, before)
    assert suspicions.standing(settled(done, before), 1) == {1}


def test_a_suspect_that_copies_is_not_suspected_for_a_while() -> None:
    """Something between the controller and a broker that lives refuses connections. The leader took
    the broker into the ISR, since it got its fetches, and the controller took it out: each second,
    for ever."""
    suspicions, before = Suspicions(), picture(suspects={1})
    suspicions.standing(before, 0)
    done = planned(before)
    suspicions.written(done, before)
    back = rejoins(settled(done, before), 1)
    assert suspicions.standing(back, 10) == frozenset()
    assert suspicions.standing(back, 9 + NOT_BELIEVED_MS) == frozenset()
    assert suspicions.standing(back, 10 + NOT_BELIEVED_MS) == {1}


def test_what_speaks_for_a_process_does_not_speak_for_the_next_one() -> None:
    suspicions, before = Suspicions(), picture(suspects={1})
    done = planned(before)
    suspicions.written(done, before)
    back = rejoins(settled(done, before), 1)
    restarted = replace(back, brokers={**back.brokers, 1: BrokerView(1, 9)})
    assert suspicions.standing(restarted, 10) == {1}


def test_who_was_taken_out_for_another_reason_proves_nothing() -> None:
    suspicions, before = Suspicions(), picture()
    gone = replace(before, brokers={one: before.brokers[one] for one in (2, 3)})
    done = planned(gone)
    suspicions.written(done, gone)
    back = replace(rejoins(settled(done, gone), 1), brokers=before.brokers)
    assert suspicions.standing(replace(back, suspects=frozenset({1})), 10) == {1}
