"""SyncGroup: the leader sends the assignment of its generation, each member gets its part.

The assignment is stored before any member gets its part, so it is still valid after a restart.
"""

from __future__ import annotations

from dataclasses import replace

from tallymark.errors import CODES
from tallymark.groups.group import Group, GroupConfig, Member, Now, State
from tallymark.groups.inputs import Decision, Sync, SyncReply
from tallymark.groups.rebalance import prepare_rebalance
from tallymark.groups.transition import Transition


def decide_sync(group: Group, sync: Sync, config: GroupConfig, now: Now) -> Decision:
    """Answer the sync, now or when the leader has sent the assignment."""
    error = _refusal(group, sync)
    if error:
        return Decision(group, replies=((sync.ticket, SyncReply(error)),))
    transition = Transition(group, config, now)
    member = transition.group.members[sync.member_id]
    transition.group.unsynced.discard(sync.member_id)
    if not transition.group.unsynced:
        transition.group.sync_deadline_ms = None
    if group.state is State.STABLE:
        transition.replies.append((sync.ticket, _part_of(transition, member)))
        transition.alive(member)
        return transition.decided()
    # If a sync is still parked, its client has given it up.
    member = transition.answer_sync(member, SyncReply(CODES["REBALANCE_IN_PROGRESS"]))
    transition.put(replace(member, sync_ticket=sync.ticket))
    if transition.group.leader == sync.member_id:
        waiting = transition.group.copy()
        transition.otherwise = lambda code: _not_stored(waiting, code, config, now)
        _assign(transition, sync)
    return transition.decided()


def _refusal(group: Group, sync: Sync) -> int:
    """Why the sync is refused, 0 if it is not."""
    code = group.check_member(sync.member_id, sync.instance_id)
    if code:
        return code
    if sync.generation != group.generation:
        return CODES["ILLEGAL_GENERATION"]
    if sync.protocol_type is not None and sync.protocol_type != group.protocol_type:
        return CODES["INCONSISTENT_GROUP_PROTOCOL"]
    if sync.protocol is not None and sync.protocol != group.protocol:
        return CODES["INCONSISTENT_GROUP_PROTOCOL"]
    if group.state is State.PREPARING_REBALANCE:
        return CODES["REBALANCE_IN_PROGRESS"]
    return 0


def _assign(transition: Transition, sync: Sync) -> None:
    """The generation becomes stable. A member that the leader left out gets an empty part."""
    for member in list(transition.group.members.values()):
        part = sync.assignments.get(member.member_id, b"")
        member = transition.put(replace(member, assignment=part))
        waited = member.sync_ticket is not None
        answered = transition.answer_sync(member, _part_of(transition, member))
        if waited:
            transition.alive(answered)
    transition.enter(State.STABLE)
    transition.store = True


def _not_stored(group: Group, error: int, config: GroupConfig, now: Now) -> Decision:
    """The assignment could not be stored: the members that wait for it get the error, and join
    again."""
    transition = Transition(group, config, now)
    transition.answer_syncs(error)
    prepare_rebalance(transition)
    return transition.decided()


def _part_of(transition: Transition, member: Member) -> SyncReply:
    group = transition.group
    return SyncReply(0, group.protocol_type, group.protocol, member.assignment)
