"""One decision under way: a copy of the group that may be changed, and the responses so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tallymark.groups.group import Group, GroupConfig, Member, Now, State, to_metadata
from tallymark.groups.inputs import Decision, JoinReply, Reply, SyncReply
from tallymark.groups.records import GroupKey, encode_key, encode_value


class Transition:
    """Collects replies; at the end it makes a record of the group."""

    def __init__(self, group: Group, config: GroupConfig, now: Now) -> None:
        self.group = group.copy()
        self.config = config
        self.now = now
        self.store = False
        """Whether to store the group at the end."""
        self.otherwise: Callable[[int], Decision] | None = None
        self.replies: list[tuple[int, Reply]] = []

    def decided(self, codes: tuple[int, ...] = ()) -> Decision:
        """The decision at the end."""
        group = self.group
        records = (
            ((encode_key(GroupKey(group.group_id)), encode_value(to_metadata(group))),)
            if self.store
            else ()
        )
        return Decision(group, records, tuple(self.replies), codes, self.otherwise)

    def enter(self, state: State) -> None:
        """Move the group to another state."""
        self.group.state = state
        self.group.state_since_ms = self.now.wall_ms

    def put(self, member: Member) -> Member:
        """Add or replace the member."""
        self.group.members[member.member_id] = member
        return member

    def alive(self, member: Member) -> None:
        """The member has sent a request, or was answered: its session timeout begins again."""
        self.put(replace(member, deadline_ms=self.now.ms + member.session_timeout_ms))

    def remove(self, member: Member, error: int) -> None:
        """Remove the member; its parked requests are answered with ``error``."""
        group = self.group
        self.answer_join(member, JoinReply(error, member_id=member.member_id))
        self.answer_sync(group.members[member.member_id], SyncReply(error))
        del group.members[member.member_id]
        group.unsynced.discard(member.member_id)
        if group.leader == member.member_id:
            group.leader = next(iter(group.members), None)

    def answer_join(self, member: Member, reply: JoinReply) -> Member:
        """Answer the member's join, if one is parked."""
        if member.join_ticket is None:
            return member
        self.replies.append((member.join_ticket, reply))
        return self.put(replace(member, join_ticket=None))

    def answer_sync(self, member: Member, reply: SyncReply) -> Member:
        """Answer the member's sync, if one is parked."""
        if member.sync_ticket is None:
            return member
        self.replies.append((member.sync_ticket, reply))
        return self.put(replace(member, sync_ticket=None))

    def answer_syncs(self, error: int) -> None:
        """Answer all parked syncs with an error; no member has an assignment any more."""
        for member in list(self.group.members.values()):
            waited = member.sync_ticket is not None
            answered = self.answer_sync(self.put(replace(member, assignment=b"")), SyncReply(error))
            if waited:
                self.alive(answered)
