"""What comes to a group, and what it is answered: the shapes between decisions and the wire.

A ``ticket`` stands for the request until it is answered, in this decision or a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tallymark.groups.group import Group, Protocols
from tallymark.groups.records import GroupRecord


@dataclass(frozen=True, slots=True)
class Join:
    """Somebody wants to be in the next generation. Times in ms."""

    ticket: int
    member_id: str
    """Empty for somebody who has no id yet."""
    instance_id: str | None
    fresh_id: str
    """The id to give where one has to be given: its random part is the caller's."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_know_id: bool = False
    """Version 4 and up: who has no id is given one and must come again with it (KIP-394)."""
    may_skip_assignment: bool = False
    """Version 9 and up: a static leader can be told to keep the assignment (KIP-814)."""


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The answer to a join. ``members`` is for the leader: (id, static id, metadata) of all."""

    error: int = 0
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """A member asks for its assignment; the leader brings everybody's."""

    ticket: int
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class SyncReply:
    """The answer to a sync."""

    error: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Leaver:
    """Somebody who leaves, by id; or, with an empty id, by static id (KIP-345)."""

    member_id: str
    instance_id: str | None = None


Reply = JoinReply | SyncReply


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from an input: append ``records``; then ``after`` is in force and ``replies``
    (ticket, answer) go out. Where the append fails with an error code, what ``otherwise`` says
    follows instead."""

    after: Group
    records: tuple[GroupRecord, ...] = ()
    replies: tuple[tuple[int, Reply], ...] = ()
    codes: tuple[int, ...] = ()
    """The answer to an input without a ticket: one code each."""
    otherwise: Callable[[int], Decision] | None = None
    """None: the same, but for the records."""


def refused_join(join: Join, error: int, member_id: str | None = None) -> tuple[int, JoinReply]:
    """The answer to a join that is refused; it names the id that the joiner should have."""
    known = join.member_id if member_id is None else member_id
    return join.ticket, JoinReply(error, member_id=known)
