"""JoinGroup: which members are accepted, and whether that begins a rebalance.

A member that joins again without a change gets the present generation. Anything else begins a
rebalance. A static member that comes back with a new member id replaces the old one (KIP-345).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallymark.errors import CODES
from tallymark.groups.group import Group, GroupConfig, Member, Now, State
from tallymark.groups.inputs import Decision, Join, JoinReply, SyncReply, refused_join
from tallymark.groups.rebalance import (
    complete_join_if_all_are_there,
    everybody,
    place_of,
    prepare_rebalance,
    rebalance,
)
from tallymark.groups.records import LONGEST_TEXT
from tallymark.groups.transition import Transition

_PROTOCOL_OVERHEAD: Final = 100
"""Bytes of memory that a protocol takes beside its name and metadata: empty ones are not free."""


def decide_join(group: Group, join: Join, config: GroupConfig, now: Now) -> Decision:
    """Answer the join, now or at the end of its rebalance."""
    error = _refusal(group, join, config)
    transition = Transition(group, config, now)
    if error:
        if error == CODES["GROUP_MAX_SIZE_REACHED"] and join.member_id in group.members:
            transition.remove(group.members[join.member_id], error)
            complete_join_if_all_are_there(transition)
        transition.replies.append(refused_join(join, error))
        return transition.decided()
    if join.member_id:
        _join_again(transition, join)
    elif join.instance_id is not None:
        holder = transition.group.static_member(join.instance_id)
        if holder is not None:
            _replace_static(transition, join, holder, group)
        else:
            _add(transition, join, join.fresh_id)
    elif join.must_know_id:
        transition.group.pending[join.fresh_id] = now.ms + join.session_timeout_ms
        transition.replies.append(refused_join(join, CODES["MEMBER_ID_REQUIRED"], join.fresh_id))
    else:
        _add(transition, join, join.fresh_id)
    return transition.decided()


def _refusal(group: Group, join: Join, config: GroupConfig) -> int:
    """Why the join is refused, 0 if it is not."""
    shortest, longest = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not shortest <= join.session_timeout_ms <= longest:
        return CODES["INVALID_SESSION_TIMEOUT"]
    if not _can_be_kept(join, config):
        return CODES["INVALID_REQUEST"]
    known = join.member_id in group.pending
    if join.member_id and not known:
        code = group.check_member(join.member_id, join.instance_id)
        if code:
            return code
    elif known and join.instance_id is not None:
        return CODES["UNKNOWN_MEMBER_ID"]  # ids are given in advance to dynamic members only
    if not _has_room(group, join, config):
        return CODES["GROUP_MAX_SIZE_REACHED"]
    if not group.accepts(join.protocol_type, join.protocols):
        return CODES["INCONSISTENT_GROUP_PROTOCOL"]
    return 0


def _can_be_kept(join: Join, config: GroupConfig) -> bool:
    """Whether a record can hold the texts of the member. Newer requests may have texts of any
    length, records have 16 bits for it."""
    texts = [join.protocol_type, join.instance_id or "", *(name for name, _ in join.protocols)]
    size = sum(_PROTOCOL_OVERHEAD + len(name) + len(data) for name, data in join.protocols)
    longest = max(len(text.encode()) for text in texts)
    return longest <= LONGEST_TEXT and size <= config.max_protocol_bytes


def _has_room(group: Group, join: Join, config: GroupConfig) -> bool:
    """Existing members have room, except where a rebalance has to reduce a group of too many. Ids
    that were given in advance count, or clients could request them without end."""
    if join.instance_id is not None and group.static_member(join.instance_id) is not None:
        return True
    if group.state is State.PREPARING_REBALANCE:
        member = group.members.get(join.member_id)
        if member is not None and member.join_ticket is not None:
            return True
        taken = group.waiting_to_join
    else:
        if join.member_id in group.members:
            return True
        taken = len(group.members)
    return taken + len(group.pending) - (join.member_id in group.pending) < config.max_size


def _join_again(transition: Transition, join: Join) -> None:
    """A join with a member id."""
    group = transition.group
    if join.member_id in group.pending:
        _add(transition, join, join.member_id)
        return
    member = group.members[join.member_id]
    unchanged = member.protocols == join.protocols
    leads = group.leader == member.member_id
    if group.state is State.COMPLETING_REBALANCE and unchanged:
        # It has not received the response of this generation.
        transition.replies.append((join.ticket, place_of(transition, member)))
    elif group.state is State.STABLE and unchanged and not leads:
        transition.replies.append((join.ticket, place_of(transition, member)))
    else:
        # A leader that joins again wants a rebalance: the topics may have changed.
        _wait(transition, join, member)
        rebalance(transition)


def _add(transition: Transition, join: Join, member_id: str) -> None:
    group = transition.group
    group.pending.pop(member_id, None)
    if not group.members:
        group.protocol_type = join.protocol_type
    group.leader = group.leader or member_id
    if group.initial is not None:
        group.initial = group.initial._replace(joined=True)
    transition.put(
        Member(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
            join_ticket=join.ticket,
            # It cannot send heartbeats before it is answered, and a lost connection is not noticed
            # while its join is parked: a client that retries often would fill the group.
            deadline_ms=transition.now.ms + transition.config.new_member_timeout_ms,
            is_new=True,
        )
    )
    rebalance(transition)


def _wait(transition: Transition, join: Join, member: Member) -> Member:
    """The member waits for the next generation, with its new metadata. If an older join of it is
    still parked, its client has given that up."""
    answered = transition.answer_join(
        member, JoinReply(CODES["REBALANCE_IN_PROGRESS"], member_id=member.member_id)
    )
    return transition.put(
        replace(
            answered,
            protocols=join.protocols,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            join_ticket=join.ticket,
        )
    )


def _replace_static(transition: Transition, join: Join, old: Member, before: Group) -> None:
    """A static member is back with a new id; a client that still uses the old one is fenced."""
    group = transition.group
    led = group.leader
    member = _take_place(transition, join, old)
    if group.state is State.STABLE and group.vote() == group.protocol:
        # No rebalance. A leader before version 9 is told that the old id leads, so that it does not
        # assign again: a stable group would not distribute that.
        leads = group.leader == member.member_id
        reply = JoinReply(
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=(group.leader if join.may_skip_assignment else led) or "",
            skip_assignment=leads and join.may_skip_assignment,
            members=everybody(transition) if leads and join.may_skip_assignment else (),
        )
        transition.alive(transition.answer_join(member, reply))
        transition.store = True
        # If it is not stored, it does not count: a restart would bring the old id back.
        transition.otherwise = lambda error: Decision(
            before, replies=(refused_join(join, error, ""),)
        )
    elif group.state is State.PREPARING_REBALANCE:
        complete_join_if_all_are_there(transition)
    else:
        # The leader may be assigning to the old id at this moment.
        prepare_rebalance(transition)


def _take_place(transition: Transition, join: Join, old: Member) -> Member:
    """Put the new id in the place of the old one, also in the order of members."""
    group, new_id = transition.group, join.fresh_id
    fenced = CODES["FENCED_INSTANCE_ID"]
    old = transition.answer_join(old, JoinReply(fenced, member_id=old.member_id))
    old = transition.answer_sync(old, SyncReply(fenced))
    patience_ms = transition.config.new_member_timeout_ms if old.is_new else join.session_timeout_ms
    fresh = replace(
        old,
        member_id=new_id,
        client_id=join.client_id,
        client_host=join.client_host,
        protocols=join.protocols,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        join_ticket=join.ticket,
        deadline_ms=transition.now.ms + patience_ms,
    )
    group.members = {
        fresh.member_id if known == old.member_id else known: fresh if known == old.member_id else m
        for known, m in group.members.items()
    }
    if old.member_id in group.unsynced:
        group.unsynced.remove(old.member_id)
        group.unsynced.add(new_id)
    if group.leader == old.member_id:
        group.leader = new_id
    return fresh
