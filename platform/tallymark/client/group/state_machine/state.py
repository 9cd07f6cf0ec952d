"""The state of a group member's state machine. Pure data; :mod:`.machine` draws its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tallymark.client.group.state_machine.assignors import COOPERATIVE, GroupMember
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition

Places = frozenset[TopicPartition]
NOBODY: Places = frozenset()


class Phase(Enum):
    """What the member is at; most of them wait for one answer."""

    FINDING = "looking for the coordinator, or waiting to try again"
    READING = "reading which topics the filter matches"
    JOINING = "joining"
    ASSIGNING = "reading the partitions to divide, as leader"
    SYNCING = "waiting for its part"
    RELEASING = "giving up everything before it joins"
    REVOKING = "giving up what goes to others"
    LOADING = "reading offsets"
    STABLE = "consuming"
    GIVING_UP = "giving up everything: the application is too slow"
    IDLE = "out of the group until the application asks again"
    LEAVING_RELEASE = "leaving: giving up everything"
    LEAVING_GROUP = "leaving: notifying the coordinator"
    CLOSED = "closed"


LEAVING: Final = (Phase.LEAVING_RELEASE, Phase.LEAVING_GROUP, Phase.CLOSED)


@dataclass(frozen=True, slots=True)
class Setup:
    """What does not change. Times in ms; ``static``: it has a group.instance.id."""

    subscription: Subscription
    strategies: tuple[str, ...] = ("range",)
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    heartbeat_ms: int = 3_000
    backoff_ms: int = 100
    look_ms: int = 10_000
    static: bool = False

    @property
    def cooperative(self) -> bool:
        """Whether it keeps its partitions while it joins: only if the group cannot choose an
        assignor that takes it for granted that all are given up."""
        return self.strategies == (COOPERATIVE,)


@dataclass(frozen=True, slots=True)
class State:
    """Everything the machine knows. Times are of any clock that does not go back, in ms.

    ``owned`` is consumed, or was until a moment ago and is not given up yet; ``target`` is what the
    present generation gives. ``rejoin`` says why another rebalance is due, once this one is over.
    ``proof_ms`` is when the last request left that the coordinator answered as to a living member,
    ``steady_ms`` when the last one left that it answered as to a member of a settled group.
    ``topics`` is what it reported to the group as its topics; as leader it knows ``group_topics``,
    and the partitions ``seen`` that it has divided (None: an earlier leader did); ``withheld`` says
    that some have no owner yet, or may have none, until their old one has given them up.
    ``misses``: heartbeats in a row that found no coordinator; ``doubted``: one said that the
    generation is over, while the join's answer was awaited.
    """

    setup: Setup
    phase: Phase = Phase.FINDING
    ticket: int = 0
    found: bool = False
    seeking: bool = False
    seek_at_ms: int = 0
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leads: bool = False
    topics: tuple[str, ...] = ()
    members: Mapping[str, GroupMember] = field(default_factory=dict[str, GroupMember])
    group_topics: tuple[str, ...] = ()
    seen: Mapping[str, tuple[int, ...]] | None = None
    withheld: bool = False
    owned: Places = NOBODY
    target: Places = NOBODY
    rejoin: str = ""
    reason: str = "it starts"
    attempts: int = 0
    wake_ms: int | None = None
    beat_out: bool = False
    beat_sent_ms: int = 0
    beat_at_ms: int = 0
    misses: int = 0
    doubted: bool = False
    proof_ms: int = 0
    steady_ms: int = 0
    sent_ms: int = 0
    paused: bool = False
    looking: bool = False
    look_at_ms: int = 0
