"""Partitions move to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from pictures import HERE, cluster, view_of

from tallymark.errors import KafkaError
from tallymark.replication import changes, reassignment
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    ChangeAssignment,
    ChangeState,
    PartitionState,
    PartitionView,
    Picture,
    Tail,
)
from tallymark.replication.planner import plan

ALL = (1, 2, 3, 4, 5)


def started(picture: Picture, target: Sequence[int]) -> Picture:
    change = reassignment.start(picture, HERE, target)
    assert change is not None
    return changes.settled([change], picture)


def with_isr(picture: Picture, *isr: int) -> Picture:
    """As the leader writes it."""
    view = picture.partitions[HERE]
    state = replace(view.state, isr=isr, version=view.state.version + 1)
    return replace(picture, partitions={HERE: replace(view, state=state)})


def without(picture: Picture, *gone: int) -> Picture:
    left = {one: view for one, view in picture.brokers.items() if one not in gone}
    return replace(picture, brokers=left)


def planned(picture: Picture) -> Picture:
    """After rounds of the controller until nothing is left to do."""
    for _ in range(5):
        todo = plan(picture).changes
        if not todo:
            return picture
        picture = changes.settled(todo, picture)
    raise AssertionError("the plan never ends")


def at(picture: Picture) -> tuple[Assignment, PartitionState]:
    view = picture.partitions[HERE]
    return view.assignment, view.state


def whole(isr: Iterable[int] = (1, 2, 3), *, least: int = 2) -> Picture:
    return cluster(view_of(1, isr, least=least), ALL)


def refused(picture: Picture, target: Sequence[int]) -> KafkaError:
    with pytest.raises(KafkaError) as refusal:
        reassignment.start(picture, HERE, target)
    return refusal.value


# -- start to end ---------------------------------------------------------------------------------


def test_a_partition_grows_to_the_union_with_the_target_first() -> None:
    picture = started(whole(), (4, 5, 1))
    assignment, state = at(picture)
    assert assignment == Assignment((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert assignment.target == (4, 5, 1)
    assert state == view_of(1, (1, 2, 3)).state, "nothing changes for leader and ISR"
    assert reassignment.moving(picture) == {HERE: assignment}
    assert planned(picture) == picture, "nothing to do before the new ones are in sync"


def test_it_shrinks_in_a_new_epoch_when_all_new_replicas_are_in_sync() -> None:
    picture = started(whole(), (4, 5, 1))
    some = with_isr(picture, 1, 2, 3, 4)
    assert planned(some) == some
    assignment, state = at(planned(with_isr(picture, 1, 2, 3, 4, 5)))
    assert assignment == Assignment((4, 5, 1))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 8, (4, 5, 1))
    assert reassignment.strays(at(picture)[0], assignment) == (2, 3)


def test_a_leader_outside_the_target_gives_the_lead_to_the_first_of_it() -> None:
    picture = with_isr(started(whole(), (4, 5)), 1, 2, 3, 4, 5)
    state = at(planned(picture))[1]
    assert (state.leader, state.leader_epoch, state.isr) == (4, 8, (4, 5))


def test_a_smaller_target_is_reached_at_once() -> None:
    assignment, state = at(planned(started(whole(), (2, 3))))
    assert (assignment, state.leader, state.isr) == (Assignment((2, 3)), 2, (2, 3))


def test_another_order_changes_only_who_is_preferred() -> None:
    picture = started(whole(), (3, 2, 1))
    assert at(picture)[0] == Assignment((3, 2, 1))
    assert not reassignment.is_moving(at(picture)[0])


def test_the_target_that_is_already_there_changes_nothing() -> None:
    assert reassignment.start(whole(), HERE, (1, 2, 3)) is None
    moving = started(whole(), (4, 5, 1))
    assert reassignment.start(moving, HERE, (4, 5, 1)) is None


def test_one_replica_moves_to_another_broker() -> None:
    picture = cluster(view_of(1, (1,), replicas=(1,), least=2), ALL)
    moving = started(picture, (2,))
    assert planned(moving) == moving
    assignment, state = at(planned(with_isr(moving, 1, 2)))
    assert (assignment, state.leader, state.isr) == (Assignment((2,)), 2, (2,))


# -- replace, cancel ------------------------------------------------------------------------------


def test_a_second_start_replaces_the_first() -> None:
    picture = with_isr(started(whole(), (4, 1, 2)), 1, 2, 3, 4)
    assignment, state = at(started(picture, (5, 1, 2)))
    assert assignment == Assignment((5, 1, 2, 3), (5,), (3,))
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 2, 3), 8)


def test_what_both_targets_add_goes_on_being_added() -> None:
    picture = with_isr(started(whole(), (4, 1, 2)), 1, 2, 3, 4)
    assignment, state = at(started(picture, (5, 4, 1)))
    assert assignment == Assignment((5, 4, 1, 2, 3), (5, 4), (2, 3))
    assert state.isr == (1, 2, 3, 4)


def test_a_cancel_goes_back_and_takes_the_new_replicas_out_of_the_isr() -> None:
    picture = with_isr(started(whole(), (4, 5, 1)), 1, 2, 3, 4)
    change = reassignment.cancel(picture, HERE)
    assert change is not None
    assignment, state = at(changes.settled([change], picture))
    assert set(assignment.replicas) == {1, 2, 3}
    assert not reassignment.is_moving(assignment)
    assert (state.leader, set(state.isr)) == (1, {1, 2, 3})
    with pytest.raises(KafkaError) as error:
        reassignment.cancel(changes.settled([change], picture), HERE)
    assert error.value.code == 85


def test_a_cancel_moves_the_lead_away_from_a_new_replica() -> None:
    picture = with_isr(started(whole(), (4, 5, 1)), 1, 2, 3, 4)
    view = picture.partitions[HERE]
    led = replace(picture, partitions={HERE: replace(view, state=replace(view.state, leader=4))})
    change = reassignment.cancel(led, HERE)
    assert change is not None
    assert change.state is not None
    assert change.state.leader == 1


@pytest.mark.parametrize("target", [None, (5, 1, 2)])
def test_a_cancel_begins_an_epoch_also_where_no_new_replica_is_in_the_isr(
    target: tuple[int, ...] | None,
) -> None:
    """Replica 4 had caught up, and the leader was about to take it into the ISR when the move was
    cancelled (or got another target). The state node did not change by that, so the leader's write
    still held: the ISR named a replica that was not assigned and had deleted its log. When it was
    assigned again it could vote, with nothing. The simulation found it (seeds 309 and 505)."""
    picture = started(whole(), (4, 1, 2))
    joined = with_isr(picture, 1, 2, 3, 4).partitions[HERE].state
    late = ChangeState(HERE, picture.partitions[HERE].state.version, joined, "4 is in sync", {4: 0})
    change = (
        reassignment.start(picture, HERE, target) if target else reassignment.cancel(picture, HERE)
    )
    assert change is not None
    after = changes.settled([change], picture)
    assert changes.settled([late], after) == after
    assert at(after)[1].leader_epoch == at(picture)[1].leader_epoch + 1, (
        "for leaders, too, it is over"
    )
    assert (at(after)[1].leader, at(after)[1].isr) == (1, (1, 2, 3))


def test_no_cancel_gives_up_the_only_replicas_in_sync() -> None:
    """The old replicas died one after the other while the new ones came: to go back would be an
    unclean election under another name."""
    picture = with_isr(started(whole(), (4, 5)), 1, 4, 5)
    with pytest.raises(KafkaError, match="too few replicas are in sync") as error:
        reassignment.cancel(picture, HERE)
    assert error.value.name == "INVALID_REPLICA_ASSIGNMENT"


# -- what may hold it up --------------------------------------------------------------------------


@pytest.mark.parametrize("target", [(1, 2, 3, 4), (2, 3, 4), (2, 4, 5)])
def test_an_unhealthy_replica_that_stays_does_not_block(target: tuple[int, ...]) -> None:
    """KAFKA-19975: replica 2 was out of sync, and stays in the target. Kafka waited for it for ever
    although no member in sync was given up."""
    picture = without(started(whole((1, 3)), target), 2)
    new = [one for one in target if one > 3]
    done = planned(with_isr(picture, 1, 3, *new))
    assert at(done)[0] == Assignment(target)


def test_an_unhealthy_replica_blocks_where_the_factor_falls() -> None:
    """Else a member in sync would go and one out of sync would stay."""
    picture = started(whole((1, 3)), (2, 3))
    assert at(planned(picture))[0] == at(picture)[0]
    assert at(planned(with_isr(picture, 1, 2, 3)))[0] == Assignment((2, 3))


def test_the_target_must_have_enough_members_in_sync() -> None:
    """KAFKA-15665: a reassignment completed with an ISR below the minimum."""
    picture = started(whole((1, 3)), (2, 1, 4))
    assert at(planned(with_isr(picture, 3, 4)))[0] == at(picture)[0]


def test_a_new_replica_with_an_incomplete_log_is_not_ready() -> None:
    picture = with_isr(started(whole(), (4, 1, 2)), 1, 2, 3, 4)
    view = picture.partitions[HERE]
    state = replace(view.state, incomplete={4: Tail(7, 5)})
    assert planned(replace(picture, partitions={HERE: replace(view, state=state)})) != picture
    assert reassignment.complete(picture, HERE, replace(view, state=state)) is None


@pytest.mark.parametrize("dead", ALL)
def test_any_broker_may_die_and_come_back_in_any_step(dead: int) -> None:
    """KAFKA-4214: a reassignment failed for good when brokers were bounced during it."""
    picture = started(whole(), (4, 5, 1))
    for isr in [(1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)]:
        now = planned(without(with_isr(picture, *isr), dead))
        back = planned(replace(now, brokers=whole().brokers))
        assert at(back)[1].leader != NO_LEADER
        members = {*at(back)[1].isr, *at(back)[0].replicas}
        done = at(planned(with_isr(back, *sorted(members))))
        assert done[0] == Assignment((4, 5, 1))


def test_the_completion_is_written_only_if_nothing_has_changed() -> None:
    picture = with_isr(started(whole(), (4, 5, 1)), 1, 2, 3, 4, 5)
    (change,) = plan(picture).changes
    assert isinstance(change, ChangeAssignment)
    later = with_isr(picture, 1, 2, 3, 4)
    assert changes.settled([change], later) == later
    other = started(picture, (3, 2, 1))
    assert changes.settled([change], other) == other


# -- wrong requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "text"),
    [((), "empty"), ((1, 4, 4), "named twice"), ((1, 9, 8), "no broker 9, 8 is registered")],
)
def test_wrong_targets_are_refused(target: tuple[int, ...], text: str) -> None:
    error = refused(whole(), target)
    assert error.name == "INVALID_REPLICA_ASSIGNMENT"
    assert text in str(error)


def test_a_dead_replica_that_stays_may_be_in_the_target() -> None:
    picture = without(whole((1, 3)), 2)
    assert at(started(picture, (2, 3, 4)))[0].adding == (4,)
    assert "no broker 2" in str(refused(cluster(view_of(1, (1, 3), (1, 3)), (1, 3)), (1, 2)))


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(KafkaError, match="clicks-9") as error:
        reassignment.start(whole(), ("clicks", 9), (1,))
    assert error.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(KafkaError, match="clicks-9") as error:
        reassignment.cancel(whole(), ("clicks", 9))
    assert error.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_the_last_incomplete_entry_goes_with_its_replica() -> None:
    view = view_of(1, (1, 2, 3), incomplete={4: Tail(7, 1)})
    view = PartitionView(Assignment((4, 1, 2, 3), (4,)), view.state, 2)
    change = reassignment.cancel(cluster(view, ALL), HERE)
    assert change is not None
    assert change.state is not None
    assert not change.state.incomplete
