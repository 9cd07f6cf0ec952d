"""What the controller wants to change."""

from __future__ import annotations

from dataclasses import replace

from pictures import HERE, cluster, many, view_of

from tallymark.replication import changes
from tallymark.replication.balance import preferred_leaders
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    ChangeAssignment,
    ChangeState,
    Picture,
    Tail,
)
from tallymark.replication.planner import plan


def only(picture: Picture) -> ChangeState:
    (change,) = plan(picture).changes
    assert isinstance(change, ChangeState)
    after = changes.settled([change], picture)
    assert not plan(after).changes, "planning on the resulting picture plans nothing"
    return change


def test_where_all_is_well_nothing_is_planned() -> None:
    view = view_of(1, (1, 2, 3))
    assert not plan(cluster(view, [1, 2, 3])).changes


def test_a_dead_leader_is_replaced_under_the_version_that_was_seen() -> None:
    change = only(cluster(view_of(1, (1, 2, 3)), [2, 3]))
    assert (change.partition, change.expected, change.state.leader) == (HERE, 20, 2)


def test_a_dead_follower_leaves_the_isr_and_the_epoch_stays() -> None:
    change = only(cluster(view_of(1, (1, 2, 3)), [1, 2]))
    assert (change.state.leader_epoch, change.state.isr) == (7, (1, 2))
    assert change.why == "the ISR goes on without [3]: not up, or leaving"


def test_the_isr_never_shrinks_below_the_least() -> None:
    view = view_of(1, (1, 2))
    assert not plan(cluster(view, [1])).changes


def test_of_members_that_cannot_be_counted_on_the_incomplete_one_goes_first() -> None:
    """A dead member has everything when it comes back; an incomplete one may not."""
    view = view_of(1, (1, 2, 3), incomplete={2: Tail(7, 10)})
    assert only(cluster(view, [1, 2])).state.isr == (1, 3)


def test_a_suspected_follower_leaves_the_isr() -> None:
    view = view_of(1, (1, 2, 3))
    assert only(cluster(view, [1, 2, 3], suspects=[2])).state.isr == (1, 3)


def test_a_broker_that_leaves_gives_up_its_leads_and_its_places_in_isrs() -> None:
    """KAFKA-15021: members that were leaving counted for the high watermark and held it up."""
    leads = only(cluster(view_of(1, (1, 2, 3)), [1, 2, 3], leaving=[1]))
    assert (leads.state.leader, leads.state.isr) == (2, (2, 3))
    follows = only(cluster(view_of(1, (1, 2, 3)), [1, 2, 3], leaving=[2]))
    assert (follows.state.leader_epoch, follows.state.isr) == (7, (1, 3))


def test_a_broker_that_came_back_intact_leads_again() -> None:
    view = view_of(NO_LEADER, (1,), least=1)
    assert only(cluster(view, [1, 2])).state.leader == 1


def test_a_broker_that_came_back_without_a_tail_waits_for_the_others() -> None:
    view = view_of(NO_LEADER, (3,), incomplete={1: Tail(7, 5), 2: Tail(7, 9)})
    assert plan(cluster(view, [1, 2])) == plan(cluster(view, []))
    assert only(cluster(view, [1, 2, 3])).state.leader == 3


def test_tails_are_asked_for_before_an_unclean_election_and_after_the_epoch_was_raised() -> None:
    """A tail that is asked for while the old leader still writes is old when it is used."""
    view = view_of(3, (3,), unclean_allowed=True)
    fenced = only_state(cluster(view, [1, 2]))
    assert fenced.partitions[HERE].state.leader == NO_LEADER
    asked = plan(fenced)
    assert (asked.changes, asked.ask) == ((), {HERE: (1, 2)})
    tails = {HERE: {1: Tail(7, 5), 2: Tail(7, 9)}}
    (change,) = plan(fenced, tails=tails).changes
    assert isinstance(change, ChangeState)
    assert (change.state.leader, change.state.unclean) == (2, True)


def only_state(picture: Picture) -> Picture:
    (change,) = plan(picture).changes
    return changes.settled([change], picture)


def test_one_replica_that_is_up_need_not_be_asked() -> None:
    view = view_of(NO_LEADER, (3,), unclean_allowed=True)
    (change,) = plan(cluster(view, [2])).changes
    assert isinstance(change, ChangeState)
    assert change.state.leader == 2


def test_without_the_policy_a_partition_waits_for_its_last_member() -> None:
    view = view_of(NO_LEADER, (3,))
    assert plan(cluster(view, [1, 2])) == plan(cluster(view, [1, 2]), tails={HERE: {}})
    assert not plan(cluster(view, [1, 2])).changes


def test_a_partition_with_one_replica_is_left_to_its_broker() -> None:
    view = view_of(1, (1,), replicas=(1,), least=1)
    for up in ([], [1], [2]):
        assert not plan(cluster(view, up)).changes
    assert not plan(cluster(view, [1, 2], leaving=[1], suspects=[1])).changes


def test_a_partition_with_a_change_of_unknown_outcome_is_left_out() -> None:
    """KAFKA-2729: a controller that went on from what it had in memory wrote under a version that
    was long gone, for hours."""
    picture = cluster(view_of(1, (1, 2, 3)), [2, 3])
    assert not plan(picture, unknown={HERE}).changes


def test_partitions_without_a_leader_come_first() -> None:
    picture = cluster(view_of(1, (1, 2, 3)), [1, 2])
    waiting = view_of(NO_LEADER, (1, 2), least=1)
    picture = replace(picture, partitions={**picture.partitions, ("clicks", 1): waiting})
    assert [change.partition[1] for change in plan(picture).changes] == [1, 0]


def test_leads_of_a_dead_broker_come_before_isrs_that_it_leaves() -> None:
    """A state still names the dead broker as leader, so such a partition was taken for one that is
    led: with 10,000 partitions 3,333 elections were written among 6,667 changes of ISRs."""
    picture = cluster(view_of(1, (1, 2, 3)), [1, 2])
    led_by_dead = view_of(3, (3, 2, 1))
    partitions = {**picture.partitions, ("clicks", 1): led_by_dead}
    planned = plan(replace(picture, partitions=partitions)).changes
    assert [change.partition[1] for change in planned] == [1, 0]


def test_leads_of_a_suspected_broker_come_before_isrs_that_it_leaves() -> None:
    picture = cluster(view_of(1, (1, 2, 3)), [1, 2, 3], suspects=[3])
    partitions = {**picture.partitions, ("clicks", 1): view_of(3, (3, 2, 1))}
    planned = plan(replace(picture, partitions=partitions)).changes
    assert [change.partition[1] for change in planned] == [1, 0]


def test_a_transaction_has_at_most_500_states() -> None:
    planned = plan(many(cluster(view_of(1, (1, 2, 3)), [2, 3]), 1201)).changes
    parts = list(changes.batches(planned))
    assert [len(part) for part in parts] == [500, 500, 201]
    assert [one for part in parts for one in part] == list(planned)


def test_a_member_that_is_not_assigned_is_taken_out_of_the_isr() -> None:
    view = view_of(1, (1, 2, 9), least=1)
    assert only(cluster(view, [1, 2, 9])).state.isr == (1, 2)


def test_a_leader_that_is_not_in_sync_is_replaced() -> None:
    view = view_of(9, (1, 2))
    assert only(cluster(view, [1, 2, 9])).state.leader == 1


# -- changes --------------------------------------------------------------------------------------


def test_a_change_of_another_version_changes_nothing() -> None:
    picture = cluster(view_of(1, (1, 2, 3)), [2, 3])
    (change,) = plan(picture).changes
    once = changes.settled([change], picture)
    assert once.partitions[HERE].state.version == 21
    assert changes.settled([change], once) == once
    assert changes.settled([replace(change, partition=("gone", 0))], once) == once


def test_an_assignment_changes_only_from_the_one_that_was_seen() -> None:
    view = view_of(1, (1, 2, 3))
    after = Assignment((1, 2))
    change = ChangeAssignment(HERE, Assignment((1, 2, 4)), after, 20, "")
    assert changes.after(change, view) is view
    change = replace(change, before=view.assignment)
    assert changes.after(change, view).assignment == after
    later = replace(view, state=replace(view.state, version=21))
    assert changes.after(change, later) is later


# -- preferred leaders ----------------------------------------------------------------------------


def moved(picture: Picture) -> int:
    planned = preferred_leaders(picture)
    assert all(change.state.leader == 1 for change in planned)
    return len(planned)


def away(count: int, of: int) -> Picture:
    """Broker 1 should lead ``of`` partitions, and leads all but ``count``."""
    picture = many(cluster(view_of(1, (1, 2, 3)), [1, 2, 3]), of)
    led = view_of(2, (1, 2, 3))
    return replace(
        picture,
        partitions={key: led if key[1] < count else at for key, at in picture.partitions.items()},
    )


def test_a_tenth_of_the_leads_may_be_elsewhere_and_of_more_all_come_back() -> None:
    assert moved(away(10, 100)) == 0
    assert moved(away(11, 100)) == 11


def test_leads_come_back_in_bounded_rounds() -> None:
    picture, rounds = away(100, 100), []
    while planned := preferred_leaders(picture, most=40):
        rounds.append(len(planned))
        picture = changes.settled(planned, picture)
    assert rounds == [40, 40, 20]


def test_leads_do_not_move_to_a_broker_that_is_not_in_sync_or_of_unknown_outcome() -> None:
    picture = many(cluster(view_of(2, (2, 3)), [1, 2, 3]), 10)
    assert moved(picture) == 0
    picture = away(10, 10)
    assert not preferred_leaders(picture, unknown=set(picture.partitions))
