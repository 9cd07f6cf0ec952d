"""The two phases of a rebalance: wait for joins, then begin a generation and wait for syncs.

Every function works on the :class:`~tallymark.groups.transition.Transition` of a decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.errors import CODES
from tallymark.groups.group import InitialDelay, Member, State
from tallymark.groups.inputs import JoinReply
from tallymark.groups.transition import Transition

_ONE_SECOND: Final = 1000


def rebalance(transition: Transition) -> None:
    """The members have changed: begin a rebalance, or end the first phase if all have joined."""
    if transition.group.state is State.PREPARING_REBALANCE:
        complete_join_if_all_are_there(transition)
    else:
        prepare_rebalance(transition)


def prepare_rebalance(transition: Transition) -> None:
    """All members have to join again, within the longest rebalance timeout of a member.

    An empty group waits a little for members that start at the same time, or each of them would
    cause a rebalance (KIP-134).
    """
    group, config, now = transition.group, transition.config, transition.now
    if group.state is State.COMPLETING_REBALANCE:
        transition.answer_syncs(CODES["REBALANCE_IN_PROGRESS"])
    group.sync_deadline_ms = None
    group.unsynced.clear()
    delay = config.initial_rebalance_delay_ms
    was_empty = group.state is State.EMPTY
    transition.enter(State.PREPARING_REBALANCE)
    if was_empty and delay > 0:
        remaining = max(group.rebalance_timeout_ms - delay, 0)
        group.initial = InitialDelay(delay, remaining, joined=False)
        group.join_deadline_ms = now.ms + delay
        return
    group.join_deadline_ms = now.ms + group.rebalance_timeout_ms
    complete_join_if_all_are_there(transition)


def complete_join_if_all_are_there(transition: Transition) -> None:
    """End the first phase early, if all members have joined. The initial delay is never
    shortened."""
    group = transition.group
    if (
        group.state is State.PREPARING_REBALANCE
        and group.initial is None
        and group.everybody_joined
    ):
        complete_join(transition)


def join_time_is_up(transition: Transition) -> None:
    """The deadline of the first phase has passed. The initial delay is extended while members join,
    up to the rebalance timeout."""
    group, now = transition.group, transition.now
    initial = group.initial
    if initial is not None and initial.joined and initial.remaining_ms > 0:
        delay = min(transition.config.initial_rebalance_delay_ms, initial.remaining_ms)
        remaining = max(initial.remaining_ms - initial.delay_ms, 0)
        group.initial = InitialDelay(delay, remaining, joined=False)
        group.join_deadline_ms = now.ms + delay
    else:
        complete_join(transition)


def complete_join(transition: Transition) -> None:
    """Begin the next generation with the members that have joined.

    The others are removed, except for static members, which stay until their session ends. If only
    such are left, there is no leader: the rebalance continues until one joins or all are removed.
    """
    group, now = transition.group, transition.now
    group.initial = None
    group.join_deadline_ms = None
    for member in list(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            transition.remove(member, CODES["UNKNOWN_MEMBER_ID"])
    if group.members and not _elect_leader(transition):
        group.join_deadline_ms = now.ms + max(group.rebalance_timeout_ms, _ONE_SECOND)
        return
    _begin_generation(transition)


def _elect_leader(transition: Transition) -> bool:
    """Elect a member that has joined; the previous leader, if it has. Returns whether there is
    one."""
    group = transition.group
    leader = group.members.get(group.leader or "")
    if leader is None or leader.join_ticket is None:
        joined = (m.member_id for m in group.members.values() if m.join_ticket is not None)
        group.leader = next(joined, group.leader)
        leader = group.members.get(group.leader or "")
    return leader is not None and leader.join_ticket is not None


def _begin_generation(transition: Transition) -> None:
    group, now = transition.group, transition.now
    group.generation += 1
    group.unsynced.clear()
    if not group.members:
        group.protocol = group.leader = None
        transition.enter(State.EMPTY)
        transition.store = True
        return
    group.protocol = group.vote()
    transition.enter(State.COMPLETING_REBALANCE)
    for member in list(group.members.values()):
        answered = transition.answer_join(member, place_of(transition, member))
        transition.alive(replace(answered, is_new=False, assignment=b""))
        group.unsynced.add(member.member_id)
    group.sync_deadline_ms = now.ms + group.rebalance_timeout_ms


def place_of(transition: Transition, member: Member) -> JoinReply:
    """The response to a member of the present generation."""
    group = transition.group
    return JoinReply(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=everybody(transition) if group.leader == member.member_id else (),
    )


def everybody(transition: Transition) -> tuple[tuple[str, str | None, bytes], ...]:
    """All members for the leader: (id, static id, metadata of the chosen protocol)."""
    group = transition.group
    return tuple(
        (member.member_id, member.instance_id, member.metadata_of(group.protocol))
        for member in group.members.values()
    )
