"""A group in its coordinator: members, generation, parked requests, and deadlines.

::

    Empty ──── join ────► PreparingRebalance ◄──── join, leave, expiry ───┐
      ▲                     │                                             │
      │   none are left     │ all have joined, or time is up              │
      └─────────────────────┤                                             │
                            ▼                                             │
                   CompletingRebalance ──── the leader syncs ────► Stable ┤
                            └─────────────────────────────────────────────┘

A group that does not exist is called Dead (DescribeGroups). An empty group or a stable generation
survives a restart (:class:`~tallymark.groups.records.GroupMetadata`); the members of a rebalance
under way begin it again.

A *ticket* is the number of a parked request: the broker knows its connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from tallymark.errors import CODES
from tallymark.groups.records import GroupMetadata, MemberMetadata

CONSUMER: Final = "consumer"
"""The protocol type whose metadata are subscriptions to topics."""

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols of a member, best first: (name, metadata)."""


class State(Enum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Now(NamedTuple):
    """The moment of a decision. Deadlines are compared with ``ms``, of a monotonic clock;
    ``wall_ms`` (UTC) goes into records."""

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The limits of groups, in ms and members (the broker's ``group.*`` settings)."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 10_000
    max_protocol_bytes: int = 1_048_576
    """Names and metadata of one member's protocols together; more could never be stored."""
    new_member_timeout_ms: int = 300_000
    """The parked join of a new member is given up after this time (Kafka's 5 min)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. While it has a ticket, a request of it is parked."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    deadline_ms: int = 0
    """A member that sends nothing until then is removed; see :attr:`expires`."""
    is_new: bool = False
    """It has joined, and is not in a generation yet."""
    names: tuple[str, ...] = field(init=False)
    """Names of its protocols, best first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for name, _ in self.protocols))

    @property
    def expires(self) -> bool:
        """Whether the deadline counts: a member whose request is parked cannot send heartbeats. It
        counts for a new member, though: that may be a client that has gone and joined again."""
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)

    def metadata_of(self, protocol: str | None) -> bytes:
        """What the member sent for a protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class InitialDelay(NamedTuple):
    """The first rebalance of an empty group waits for more members: ``delay_ms`` of it run now,
    ``remaining_ms`` may be added; ``joined``: another member has joined since."""

    delay_ms: int
    remaining_ms: int
    joined: bool


@dataclass(slots=True)
class Group:
    """A group. Decisions work on a :meth:`copy`; the present one is never changed."""

    group_id: str
    state: State = State.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    """Wall clock, UTC; -1 where it is not known."""
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    pending: dict[str, int] = field(default_factory=dict[str, int])
    """Member ids that were given to clients, which must join again with them, and their
    deadlines."""
    unsynced: set[str] = field(default_factory=set[str])
    """Members of this generation that have not asked for their assignment yet."""
    join_deadline_ms: int | None = None
    """When a rebalance continues without the members that have not joined."""
    sync_deadline_ms: int | None = None
    """When the members in :attr:`unsynced` are removed."""
    initial: InitialDelay | None = None

    def copy(self) -> Group:
        """A copy to decide on."""
        return replace(
            self,
            members=dict(self.members),
            pending=dict(self.pending),
            unsynced=set(self.unsynced),
        )

    @property
    def vacant(self) -> bool:
        """Whether it has no members and no pending member ids."""
        return self.state is State.EMPTY and not self.members and not self.pending

    @property
    def next_deadline_ms(self) -> int | None:
        """When :func:`~tallymark.groups.membership.decide_expiry` has something to do next."""
        return min(self._deadlines(), default=None)

    def _deadlines(self) -> Iterator[int]:
        yield from self.pending.values()
        for member in self.members.values():
            if member.expires:
                yield member.deadline_ms
        for deadline in (self.join_deadline_ms, self.sync_deadline_ms):
            if deadline is not None:
                yield deadline

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member asks for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def waiting_to_join(self) -> int:
        """How many members have joined the rebalance under way."""
        return sum(member.join_ticket is not None for member in self.members.values())

    @property
    def everybody_joined(self) -> bool:
        """Whether all members have joined the rebalance."""
        return not self.pending and self.waiting_to_join == len(self.members)

    def static_member(self, instance_id: str) -> Member | None:
        """The member with the static id."""
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def static_members(self) -> dict[str, Member]:
        """All members with a static id, by that id: for many look-ups."""
        return {m.instance_id: m for m in self.members.values() if m.instance_id is not None}

    def check_member(
        self, member_id: str, instance_id: str | None, holders: Mapping[str, Member] | None = None
    ) -> int:
        """0, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another member has the static id.
        ``holders``: :meth:`static_members`, if they are known."""
        member = self.members.get(member_id)
        if instance_id is None:
            return 0 if member is not None else CODES["UNKNOWN_MEMBER_ID"]
        if member is not None and member.instance_id == instance_id:
            return 0
        found = self.static_member if holders is None else holders.get
        holder = found(instance_id)
        return CODES["UNKNOWN_MEMBER_ID" if holder is None else "FENCED_INSTANCE_ID"]

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can be in the group."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def vote(self) -> str:
        """The protocol of the next generation: each member votes for the first on its list that all
        know. Of equal ones the first that got a vote. There must be members."""
        common = self._common_protocols()
        votes = Counter(
            next(name for name in member.names if name in common)
            for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def _common_protocols(self) -> set[str]:
        # Most members vote alike, and a large group does this at every join.
        distinct = [set(names) for names in {member.names for member in self.members.values()}]
        return set.intersection(*distinct)


def to_metadata(group: Group) -> GroupMetadata:
    """The part of the group that is stored."""
    return GroupMetadata(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_of(group.protocol),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def from_metadata(group_id: str, kept: GroupMetadata, now_ms: int) -> Group:
    """The group as a new coordinator loads it: its members have one session timeout to send a
    heartbeat."""
    members = {
        member.member_id: Member(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout,
            rebalance_timeout_ms=(
                member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout
            ),
            protocols=((kept.protocol or "", bytes(member.subscription)),),
            assignment=bytes(member.assignment),
            deadline_ms=now_ms + member.session_timeout,
        )
        for member in kept.members
    }
    return Group(
        group_id,
        state=State.STABLE if members else State.EMPTY,
        generation=kept.generation,
        protocol_type=kept.protocol_type or None,
        protocol=kept.protocol,
        leader=kept.leader,
        state_since_ms=kept.current_state_timestamp,
        members=members,
    )
