"""A coordinator of one group without a broker: decisions are carried out at once, the log is a
list, the clock moves when the test says so, and appends fail when it says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tallymark.errors import CODES
from tallymark.groups.deletion import decide_expire
from tallymark.groups.group import Group, GroupConfig, Now, State, from_metadata
from tallymark.groups.inputs import Decision, Join, JoinReply, Leaver, Reply, Sync, SyncReply
from tallymark.groups.joining import decide_join
from tallymark.groups.membership import (
    decide_expiry,
    decide_heartbeat,
    decide_leave,
    decide_take_over,
)
from tallymark.groups.offsets import Commit, Committer, decide_commit
from tallymark.groups.records import GroupKey, GroupRecord, decode_key
from tallymark.groups.state import GroupsState
from tallymark.groups.syncing import decide_sync

GROUP = "g"
RANGE: tuple[tuple[str, bytes], ...] = (("range", b"subscription"),)
WALL = 1_700_000_000_000
"""Wall clock of the coordinator at its time 0."""


@dataclass
class Coordinator:
    """See the module. ``answers`` has what every ticket was answered."""

    config: GroupConfig = field(default_factory=lambda: GroupConfig(initial_rebalance_delay_ms=0))
    ms: int = 0
    fail_with: int = 0
    """The error code of the next append; it fails once."""
    stale: bool = False
    """Whether the last append of the group failed."""

    def __post_init__(self) -> None:
        self.state = GroupsState()
        self.log: list[GroupRecord] = []
        self.group = Group(GROUP)
        self.answers: dict[int, Reply] = {}
        self.parked: set[int] = set()
        self._tickets = count(1)
        self._ids = count(1)

    @property
    def now(self) -> Now:
        return Now(self.ms, WALL + self.ms)

    def stands(self, state: State) -> bool:
        """Whether the group is in the state."""
        return self.group.state is state

    # --- requests

    def join(self, member_id: str = "", **changes: Any) -> int:
        """Join; returns the ticket. Keywords are fields of Join."""
        join = Join(
            ticket=self._ticket(),
            member_id=member_id,
            instance_id=None,
            fresh_id=f"m{next(self._ids)}",
            client_id="c",
            client_host="/h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=RANGE,
        )
        join = replace(join, **changes)
        self.carry_out(decide_join(self.group, join, self.config, self.now))
        return join.ticket

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        **changes: Any,
    ) -> int:
        """Sync; returns the ticket. Keywords are fields of Sync."""
        ticket = self._ticket()
        at = self.group.generation if generation is None else generation
        sync = Sync(ticket, member_id, None, at, assignments=assignments or {})
        sync = replace(sync, **changes)
        self.carry_out(decide_sync(self.group, sync, self.config, self.now))
        return ticket

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> int:
        at = self.group.generation if generation is None else generation
        return self.carry_out(
            decide_heartbeat(self.group, member_id, instance_id, at, self.config, self.now)
        ).codes[0]

    def leave(self, *leavers: Leaver) -> tuple[int, ...]:
        return self.carry_out(decide_leave(self.group, leavers, self.config, self.now)).codes

    def commit(self, commits: Sequence[Commit], committer: Committer | None = None) -> list[int]:
        decided = decide_commit(
            self.group, committer or Committer(), commits, self.config, self.now, 10
        )
        return list(self.carry_out(decided).codes)

    def expire_offsets(self, retention_ms: int) -> int:
        records = decide_expire(self.state, self.group, retention_ms, self.now.wall_ms)
        self._append(records)
        if records and self.group.vacant and GROUP not in self.state.metadata:
            self.group = Group(GROUP)
        return len(records)

    # --- time and faults

    def wait(self, ms: int) -> None:
        """Let time pass; what becomes due is done at its moment."""
        end = self.ms + ms
        for _ in range(1_000):
            due = self.group.next_deadline_ms
            if due is None or due > end:
                self.ms = end
                return
            self.ms = max(due, self.ms)
            self.carry_out(decide_expiry(self.group, self.config, self.now))
        raise AssertionError(f"deadlines come again and again at {self.ms}: {self.group}")

    def restart(self) -> None:
        """Another coordinator takes over: what was parked gets no answer, the log is replayed."""
        self.parked.clear()
        self.stale = False
        self.state = GroupsState()
        for record in self.log:
            self.state.replay(record)
        kept = self.state.metadata.get(GROUP)
        self.group = Group(GROUP) if kept is None else from_metadata(GROUP, kept, self.ms)
        self.carry_out(decide_take_over(self.group, self.config, self.now))

    def carry_out(self, decision: Decision) -> Decision:
        """What the shell in the broker does."""
        if decision.records and self.fail_with:
            code, self.fail_with = self.fail_with, 0
            self.stale = True
            if decision.otherwise is not None:
                decision = decision.otherwise(code)
        else:
            self._append(decision.records)
            if any(isinstance(decode_key(key), GroupKey) for key, _ in decision.records):
                self.stale = False
        self.group = decision.after
        for ticket, reply in decision.replies:
            assert ticket in self.parked, f"ticket {ticket} is answered twice, or was never given"
            self.parked.remove(ticket)
            self.answers[ticket] = reply
        return decision

    def _append(self, records: Sequence[GroupRecord]) -> None:
        for record in records:
            self.log.append(record)
            self.state.replay(record)

    def _ticket(self) -> int:
        ticket = next(self._tickets)
        self.parked.add(ticket)
        return ticket

    # --- answers

    def joined(self, ticket: int) -> JoinReply:
        """The answer to a join; it must be there."""
        reply = self.answers[ticket]
        assert isinstance(reply, JoinReply)
        return reply

    def synced(self, ticket: int) -> SyncReply:
        """The answer to a sync; it must be there."""
        reply = self.answers[ticket]
        assert isinstance(reply, SyncReply)
        return reply

    def stable(self, *members: Mapping[str, Any]) -> list[str]:
        """A group of these members (keywords of :meth:`join`), stable in its first generation;
        returns their ids, the leader's first. Each has its own id as its assignment."""
        config, self.config = self.config, replace(self.config, initial_rebalance_delay_ms=1)
        tickets = [self.join(**member) for member in members or ({},)]
        while tickets[-1] in self.parked:
            self.wait(1)
        self.config = config
        ids = [self.joined(ticket).member_id for ticket in tickets]
        leader = self.group.leader
        assert leader is not None
        ids.sort(key=lambda member_id: member_id != leader)
        for member_id in ids[1:]:
            self.sync(member_id)
        self.sync(leader, assignments={member_id: member_id.encode() for member_id in ids})
        assert not self.parked
        return ids


def error(reply: Reply | int) -> str:
    """The name of the error of a reply, or of a code; "" for none."""
    code = reply if isinstance(reply, int) else reply.error
    return next(name for name, number in CODES.items() if number == code) if code else ""
