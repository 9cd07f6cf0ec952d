"""Moves of replicas to other brokers (KIP-455), as a state machine over what the nodes hold.

::

    replicas 1,2,3
        │ start: the union of old and new, the target first
        ▼
    replicas 4,5,1,2,3  adding 4,5  removing 2,3   ──start again──▶ another target
        │                                          ──cancel───────▶ replicas 1
        │ the leader takes 4 and 5 into the ISR
        ▼
    complete: ISR, leader and replicas within 1,4,5, in one transaction, with a new leader epoch

Nothing but the two nodes is remembered, so brokers and controllers may die in every step
(KAFKA-4214: a reassignment failed when controller and new replica were bounced together). A change
that takes replicas away takes them out of the ISR in the same transaction, and is refused where
those that stay could not go on without loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import election, in_sync
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    ChangeAssignment,
    PartitionState,
    PartitionView,
    Picture,
    least_isr,
)


def is_moving(assignment: Assignment) -> bool:
    """Whether a reassignment is under way."""
    return bool(assignment.adding or assignment.removing)


def moving(picture: Picture) -> Mapping[TopicPartition, Assignment]:
    """The partitions that move: what ListPartitionReassignments answers."""
    return {
        partition: view.assignment
        for partition, view in picture.partitions.items()
        if is_moving(view.assignment)
    }


def start(
    picture: Picture, partition: TopicPartition, target: Sequence[int]
) -> ChangeAssignment | None:
    """Move the partition to ``target``, the preferred leader first; a reassignment under way gets
    the new target. None where the nodes say so already.

    KafkaError UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT for an empty target, for a
    broker named twice, for one that is new to the partition and not registered, and where the only
    members in sync would go.
    """
    view = _view(picture, partition)
    _check(picture, partition, view.assignment, target)
    return _to(picture, partition, view, target, f"moves to {list(target)}")


def cancel(picture: Picture, partition: TopicPartition) -> ChangeAssignment | None:
    """Go back to the replicas before the reassignment.

    KafkaError UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, and
    INVALID_REPLICA_ASSIGNMENT where the only members in sync would go.
    """
    view = _view(picture, partition)
    if not is_moving(view.assignment):
        raise KafkaError(CODES["NO_REASSIGNMENT_IN_PROGRESS"], _named(partition))
    return _to(picture, partition, view, view.assignment.original, "the reassignment is cancelled")


def complete(
    picture: Picture, partition: TopicPartition, view: PartitionView
) -> ChangeAssignment | None:
    """The last step, once all that are added are up and in sync; None before.

    Members in sync within the target must be as many as the ISR may not fall below. A replica that
    was there before and stays, but is not in sync, holds nothing up (KAFKA-19975), unless the
    target is smaller than what was before: then all of it must be in sync.
    """
    assignment = view.assignment
    target = assignment.target
    if not is_moving(assignment) or not target:
        return None
    ready = [one for one in in_sync.candidates(view, picture) if one in target]
    needed = target if len(target) < len(assignment.original) else assignment.adding
    if not set(needed) <= set(ready) or len(ready) < least_isr(view.min_insync, len(target)):
        return None
    leader = election.within(view, picture, target)
    within = replace(view, assignment=Assignment(target))
    return ChangeAssignment(
        partition,
        assignment,
        within.assignment,
        view.state.version,
        f"the reassignment to {list(target)} is complete",
        _shrunk(within, picture, leader, in_sync.kept(within, picture, leader)),
    )


def strays(before: Assignment, after: Assignment) -> tuple[int, ...]:
    """The brokers that no longer hold the partition, and delete their logs of it later."""
    return tuple(one for one in before.replicas if one not in after.replicas)


def _to(
    picture: Picture,
    partition: TopicPartition,
    view: PartitionView,
    target: Sequence[int],
    why: str,
) -> ChangeAssignment | None:
    before = view.assignment
    original = before.original
    removing = tuple(one for one in original if one not in target)
    after = Assignment(
        (*target, *removing), tuple(one for one in target if one not in original), removing
    )
    if after == before:
        return None
    state = _without(picture, partition, view, after)
    return ChangeAssignment(partition, before, after, view.state.version, why, state)


def _without(
    picture: Picture, partition: TopicPartition, view: PartitionView, after: Assignment
) -> PartitionState | None:
    """The state without the replicas that an earlier target added and this one does not have; None
    where none goes. It has a new epoch also where it names none of them: the leader may be about to
    take one into the ISR, and what it knows of that one's log is over when the log is deleted."""
    state = view.state
    going = set(view.assignment.replicas) - set(after.replicas)
    if not going:
        return None
    within = replace(view, assignment=after)
    leads = in_sync.leads(view, picture)
    leader = election.within(within, picture, after.target)
    if leader == NO_LEADER:
        leader = election.within(within, picture, after.replicas)
    isr = tuple(one for one in after.replicas if one in state.isr)
    voters = in_sync.voters(within)
    lost = len(voters) < len(in_sync.voters(view))
    if (lost and len(voters) < within.least_isr) or (leads and leader == NO_LEADER):
        raise KafkaError(
            CODES["INVALID_REPLICA_ASSIGNMENT"],
            f"{_named(partition)}: without {sorted(going)} too few replicas are in sync"
            f" ({list(isr)}); wait until others are, or name these in the target",
        )
    return _shrunk(within, picture, leader, isr)


def _shrunk(
    view: PartitionView, picture: Picture, leader: int, isr: tuple[int, ...]
) -> PartitionState:
    replicas = view.assignment.replicas
    return replace(
        view.state,
        leader=leader,
        leader_epoch=view.state.leader_epoch + 1,
        isr=isr,
        controller_epoch=picture.controller_epoch,
        incomplete={one: tail for one, tail in view.state.incomplete.items() if one in replicas},
    )


def _check(
    picture: Picture, partition: TopicPartition, before: Assignment, target: Sequence[int]
) -> None:
    unknown = [one for one in target if one not in picture.brokers and one not in before.replicas]
    if not target:
        problem = "the target is empty"
    elif len(set(target)) < len(target):
        problem = f"a broker is named twice in {list(target)}"
    elif unknown:
        problem = f"no broker {', '.join(map(str, unknown))} is registered"
    else:
        return
    raise KafkaError(CODES["INVALID_REPLICA_ASSIGNMENT"], f"{_named(partition)}: {problem}")


def _view(picture: Picture, partition: TopicPartition) -> PartitionView:
    view = picture.partitions.get(partition)
    if view is None:
        raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], _named(partition))
    return view


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
