"""The controller's decisions: from the picture of the cluster to the changes that it wants.

::

    picture ── plan ─▶ changes ── changes.batches ─▶ transactions ─▶ nodes ── read ─▶ picture

Nothing is remembered between two rounds. Every change names the version of the state that it was
decided from, so a change that comes late, twice or after that of another fails and harms nothing;
what is still wanted is planned again. When the outcome of a change is not known (the connection
broke), its partition is left out until its nodes were read again: a decision from a picture that
may be old is wasted at best (KAFKA-2729: controller and leaders that never read again).

In each round a partition gets at most one change. Where there is nothing to do the plan is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication import election, in_sync, reassignment
from tallymark.replication.election import Elected, Tails
from tallymark.replication.model import (
    NO_LEADER,
    Change,
    ChangeState,
    PartitionView,
    Picture,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the controller wants now. ``changes``: first those of partitions that no broker leads,
    then those that move a lead, then the rest. ``ask``: brokers that must report the tails of their
    logs before a partition can have a leader; the answers are the argument ``tails`` of the next
    :func:`plan`."""

    changes: tuple[Change, ...] = ()
    ask: Mapping[TopicPartition, tuple[int, ...]] = field(
        default_factory=dict[TopicPartition, tuple[int, ...]]
    )


def plan(
    picture: Picture,
    *,
    unknown: Set[TopicPartition] = frozenset(),
    tails: Mapping[TopicPartition, Tails] | None = None,
) -> Plan:
    """The changes that the picture calls for.

    ``unknown`` are partitions with a change whose outcome is not known; they are left out.
    ``tails`` are answers to an earlier plan's ``ask``. A partition without an entry has not been
    asked for; a broker without one did not answer in time.
    """
    changes: list[Change] = []
    ask: dict[TopicPartition, tuple[int, ...]] = {}
    for partition, view in picture.partitions.items():
        if partition in unknown or _is_alone(view):
            continue
        done = reassignment.complete(picture, partition, view)
        if done is not None:
            changes.append(done)
            continue
        outcome = _repair(view, picture, tails.get(partition) if tails else None)
        if isinstance(outcome, Elected):
            state = outcome.state
            changes.append(ChangeState(partition, view.state.version, state, outcome.why))
        elif outcome:
            ask[partition] = outcome
    changes.sort(key=lambda change: _urgency(change, picture))
    return Plan(tuple(changes), ask)


def _urgency(change: Change, picture: Picture) -> int:
    """The smaller, the sooner it is written. With many partitions a broker's death is thousands of
    changes: those that only take it out of an ISR must not hold up those that elect a leader."""
    view = picture.partitions[change.partition]
    if not in_sync.leads(view, picture):
        return 0
    moves = change.state is not None and change.state.leader_epoch != view.state.leader_epoch
    return 1 if moves else 2


def _is_alone(view: PartitionView) -> bool:
    """A partition with one replica, which leads it: whether it is up or not, there is nothing to
    elect. Its broker raises the epoch by itself when it comes back."""
    return view.assignment.replicas == (view.state.leader,) == view.state.isr


def _repair(
    view: PartitionView, picture: Picture, tails: Tails | None
) -> Elected | tuple[int, ...]:
    """The next state, or the brokers that must be asked first, or nothing: ()"""
    if not in_sync.leads(view, picture):
        return _with_leader(view, picture, tails)
    leader = view.state.leader
    if leader in picture.suspects or picture.brokers[leader].leaving:
        outcome = election.replaced(view, picture)
        if isinstance(outcome, Elected):
            return outcome
    isr = in_sync.kept(view, picture, leader)
    if isr == view.state.isr:
        return ()
    gone = sorted(set(view.state.isr) - set(isr))
    state = replace(view.state, isr=isr, controller_epoch=picture.controller_epoch)
    return Elected(state, f"the ISR goes on without {gone}: not up, or leaving")


def _with_leader(
    view: PartitionView, picture: Picture, tails: Tails | None
) -> Elected | tuple[int, ...]:
    if in_sync.candidates(view, picture) or view.state.leader != NO_LEADER:
        return election.offline(view, picture)
    # The epoch is raised and no broker leads, so the tails that are asked for stand still.
    attempts = [election.among_incomplete(view, picture, tails or {})]
    if view.unclean_allowed:
        policy = "unclean.leader.election.enable is set"
        attempts.append(election.unclean(view, picture, tails or {}, policy))
    if not any(isinstance(outcome, Elected) for outcome in attempts):
        return ()
    up = tuple(one for one in view.assignment.replicas if picture.is_up(one))
    if tails is None and len(up) > 1:
        return up
    return next(outcome for outcome in attempts if isinstance(outcome, Elected))
