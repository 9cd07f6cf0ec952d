"""Heartbeats, and members that leave or expire."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.errors import CODES
from tallymark.groups.group import Group, GroupConfig, Member, Now, State
from tallymark.groups.inputs import Decision, Leaver
from tallymark.groups.rebalance import join_time_is_up, prepare_rebalance, rebalance
from tallymark.groups.transition import Transition


def decide_heartbeat(
    group: Group,
    member_id: str,
    instance_id: str | None,
    generation: int,
    config: GroupConfig,
    now: Now,
) -> Decision:
    """The heartbeat of a member. Its code: 0, or what the member has to do."""
    code = check_generation(group, member_id, instance_id, generation)
    if code:
        return Decision(group, codes=(code,))
    transition = Transition(group, config, now)
    transition.alive(transition.group.members[member_id])
    moving = group.state is State.PREPARING_REBALANCE
    return transition.decided((CODES["REBALANCE_IN_PROGRESS"] if moving else 0,))


def check_generation(group: Group, member_id: str, instance_id: str | None, generation: int) -> int:
    """0 for a member of the present generation, else the error code."""
    code = group.check_member(member_id, instance_id)
    if code or group.generation == generation:
        return code
    return CODES["ILLEGAL_GENERATION"]


def decide_leave(
    group: Group, leavers: Sequence[Leaver], config: GroupConfig, now: Now
) -> Decision:
    """Members leave, several at once where a tool removes them; one error code each."""
    transition = Transition(group, config, now)
    members_before = len(group.members)
    holders = transition.group.static_members()
    codes = tuple(_leave(transition, leaver, holders) for leaver in leavers)
    if not any(code == 0 for code in codes):
        return Decision(group, codes=codes)
    if len(transition.group.members) < members_before or group.state is State.PREPARING_REBALANCE:
        rebalance(transition)
    return transition.decided(codes)


def _leave(transition: Transition, leaver: Leaver, holders: dict[str, Member]) -> int:
    group = transition.group
    if leaver.member_id in group.pending:
        del group.pending[leaver.member_id]
        return 0
    member = group.members.get(leaver.member_id)
    if leaver.member_id:
        code = group.check_member(leaver.member_id, leaver.instance_id, holders)
        if code:
            return code
    elif leaver.instance_id is not None:
        member = holders.get(leaver.instance_id)
    if member is None:
        return CODES["UNKNOWN_MEMBER_ID"]
    transition.remove(member, CODES["UNKNOWN_MEMBER_ID"])
    if member.instance_id is not None:
        del holders[member.instance_id]
    return 0


def decide_expiry(group: Group, config: GroupConfig, now: Now) -> Decision:
    """Do what is due at the group's deadlines; see :attr:`Group.next_deadline_ms`."""
    transition = Transition(group, config, now)
    working = transition.group
    given_up = [mid for mid, deadline in working.pending.items() if deadline <= now.ms]
    for member_id in given_up:
        del working.pending[member_id]
    silent = [m for m in working.members.values() if m.expires and m.deadline_ms <= now.ms]
    for member in silent:
        transition.remove(member, CODES["UNKNOWN_MEMBER_ID"])
    if silent or (given_up and working.state is State.PREPARING_REBALANCE):
        rebalance(transition)
    if working.join_deadline_ms is not None and working.join_deadline_ms <= now.ms:
        join_time_is_up(transition)
    if working.sync_deadline_ms is not None and working.sync_deadline_ms <= now.ms:
        _sync_time_is_up(transition)
    return transition.decided()


def _sync_time_is_up(transition: Transition) -> None:
    """Remove the members that never requested their assignment."""
    group = transition.group
    group.sync_deadline_ms = None
    lazy = [group.members[member_id] for member_id in group.unsynced]
    for member in lazy:
        transition.remove(member, CODES["UNKNOWN_MEMBER_ID"])
    if lazy:
        prepare_rebalance(transition)


def decide_take_over(group: Group, config: GroupConfig, now: Now) -> Decision:
    """For a group that a new coordinator has loaded: a group with too many members, since the limit
    is lower now, begins a rebalance."""
    transition = Transition(group, config, now)
    if len(group.members) > config.max_size:
        prepare_rebalance(transition)
    return transition.decided()
