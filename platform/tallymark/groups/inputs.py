"""The requests of a group and the responses to them, as decisions take and return them.

A ``ticket`` identifies the request until it is answered, in this decision or a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tallymark.groups.group import Group, Protocols
from tallymark.groups.records import GroupRecord


@dataclass(frozen=True, slots=True)
class Join:
    """A request to be in the next generation. Times in ms."""

    ticket: int
    member_id: str
    """Empty for a client without an id."""
    instance_id: str | None
    fresh_id: str
    """The id for a new member, if it needs one: the caller has made its random part."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_know_id: bool = False
    """Version 4 and up: a client without an id gets one and must join again with it (KIP-394)."""
    may_skip_assignment: bool = False
    """Version 9 and up: the response can ask a static leader to keep the assignment (KIP-814)."""


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
    """A member requests its assignment; the leader sends the assignments of all."""

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
    """A member that leaves, by id; or, with an empty id, by static id (KIP-345)."""

    member_id: str
    instance_id: str | None = None


Reply = JoinReply | SyncReply


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a request: append ``records``; then ``after`` becomes the group, and
    ``replies`` (ticket, response) are sent. Where the append fails with an error code, call
    ``otherwise`` and follow its decision instead."""

    after: Group
    records: tuple[GroupRecord, ...] = ()
    replies: tuple[tuple[int, Reply], ...] = ()
    codes: tuple[int, ...] = ()
    """The answer to an input without a ticket: one code each."""
    otherwise: Callable[[int], Decision] | None = None
    """None: the same decision, without the records."""
    refused: bool = False
    """The append has failed, and this is followed instead: its responses contain nothing that is
    stored."""


def refused_join(join: Join, error: int, member_id: str | None = None) -> tuple[int, JoinReply]:
    """The answer to a refused join; it has the id that the client should use."""
    known = join.member_id if member_id is None else member_id
    return join.ticket, JoinReply(error, member_id=known)
