"""SyncGroup: the leader brings the assignment of its generation, everybody takes a part home.

The assignment is kept before anybody gets a part of it: what was told is true after a restart too.
"""

from __future__ import annotations

from dataclasses import replace

from tallymark.errors import CODES
from tallymark.groups.group import Group, GroupConfig, Member, Now, State
from tallymark.groups.inputs import Decision, Sync, SyncReply
from tallymark.groups.rebalance import prepare_rebalance
from tallymark.groups.turn import Turn


def decide_sync(group: Group, sync: Sync, config: GroupConfig, now: Now) -> Decision:
    """Answer the sync, now or when the leader has brought the assignment."""
    error = _refusal(group, sync)
    if error:
        return Decision(group, replies=((sync.ticket, SyncReply(error)),))
    turn = Turn(group, config, now)
    member = turn.group.members[sync.member_id]
    turn.group.unsynced.discard(sync.member_id)
    if not turn.group.unsynced:
        turn.group.sync_deadline_ms = None
    if group.state is State.STABLE:
        turn.replies.append((sync.ticket, _part_of(turn, member)))
        turn.alive(member)
        return turn.decided()
    # A sync that is still parked was given up by its client.
    member = turn.answer_sync(member, SyncReply(CODES["REBALANCE_IN_PROGRESS"]))
    turn.put(replace(member, sync_ticket=sync.ticket))
    if turn.group.leader == sync.member_id:
        waiting = turn.group.copy()
        turn.otherwise = lambda code: _not_stored(waiting, code, config, now)
        _assign(turn, sync)
    return turn.decided()


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


def _assign(turn: Turn, sync: Sync) -> None:
    """The generation is stable. A member that the leader forgot gets an empty part."""
    for member in list(turn.group.members.values()):
        part = sync.assignments.get(member.member_id, b"")
        member = turn.put(replace(member, assignment=part))
        waited = member.sync_ticket is not None
        answered = turn.answer_sync(member, _part_of(turn, member))
        if waited:
            turn.alive(answered)
    turn.enter(State.STABLE)
    turn.store = True


def _not_stored(group: Group, error: int, config: GroupConfig, now: Now) -> Decision:
    """The assignment could not be kept: whoever waits for it is told why, and joins again."""
    turn = Turn(group, config, now)
    turn.answer_syncs(error)
    prepare_rebalance(turn)
    return turn.decided()


def _part_of(turn: Turn, member: Member) -> SyncReply:
    group = turn.group
    return SyncReply(0, group.protocol_type, group.protocol, member.assignment)
