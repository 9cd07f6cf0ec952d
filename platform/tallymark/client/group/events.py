"""The words of a group member's state machine: phases, actions, events, state. Pure data.

:mod:`.machine` tells what they do with each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tallymark.client.connector.rebalance import TopicPartition
from tallymark.client.group.assignors import COOPERATIVE, GroupMember, Partitions
from tallymark.coordination.subscriptions import Subscription

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
    LEAVING_GROUP = "leaving: telling the coordinator"
    CLOSED = "closed"


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
        """Whether it keeps its partitions while it joins: only if nobody can choose an assignor
        that takes it for granted that all are given up."""
        return self.strategies == (COOPERATIVE,)


# -- actions: with a ticket, they are answered ------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker; answer Found or NotFound."""


@dataclass(frozen=True, slots=True)
class ReadTopics:
    """Read the partitions of these topics (None: of all); answer Topics or Failed."""

    ticket: int
    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Join:
    """JoinGroup; answer Joined, Refused or Failed."""

    ticket: int
    member_id: str
    generation: int
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Sync:
    """SyncGroup, with everybody's part if it leads; answer Synced, Refused or Failed."""

    ticket: int
    member_id: str
    generation: int
    protocol: str
    division: Mapping[str, Sequence[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Heartbeat; answer Beaten or BeatFailed."""

    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Look:
    """Like ReadTopics, while consumption goes on; answer Looked."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class StopFetchers:
    """Drop what was fetched of these and not handed out; hand out nothing more of them."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let the application finish, store how far it has come; answer Done in any case."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the positions: the partitions are no longer this member's."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Read the stored offsets; answer Done or Failed."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """Fetch these too, from the offsets just loaded."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """LeaveGroup; answer Done in any case, soon."""

    ticket: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Hand out nothing until Resume."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on from where Pause was."""


@dataclass(frozen=True, slots=True)
class Fail:
    """What no waiting will mend: end, and tell the application."""

    code: int


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing is left to do."""


Action = (
    FindCoordinator
    | ReadTopics
    | Join
    | Sync
    | Heartbeat
    | Look
    | StopFetchers
    | Release
    | Forget
    | Load
    | StartFetchers
    | Leave
    | Pause
    | Resume
    | Fail
    | Close
)

# -- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or it begins."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The application is done: leave the group in order."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The application has worked on what it was handed out for longer than it may."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A slow application has asked for more."""


@dataclass(frozen=True, slots=True)
class Found:
    """The coordinator is known."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """Nobody knows it now."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What was read: partitions by topic; topics that do not exist are left out."""

    ticket: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Joined:
    """In, as of this generation. ``members`` is for the leader; ``keep``: it leads, and the
    assignment stays as it was (KIP-814)."""

    ticket: int
    member_id: str
    generation: int
    protocol: str
    leads: bool = False
    members: Mapping[str, GroupMember] = field(default_factory=dict[str, GroupMember])
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """Its part."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The coordinator answered with an error; ``member_id`` is the one it gave, if it did."""

    ticket: int
    code: int
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer: nobody knows whether it was done."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Done:
    """It is done."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer to a heartbeat of that generation."""

    generation: int
    code: int


@dataclass(frozen=True, slots=True)
class BeatFailed:
    """A heartbeat was not answered."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What Look saw; None: nothing could be read."""

    partitions: Partitions | None


Event = (
    Tick
    | Stop
    | Slow
    | Asked
    | Found
    | NotFound
    | Topics
    | Joined
    | Synced
    | Refused
    | Failed
    | Done
    | Beaten
    | BeatFailed
    | Looked
)

# -- state ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """Everything the machine knows. Times are of any clock that does not go back, in ms.

    ``owned`` is consumed, or was until a moment ago and is not given up yet; ``target`` is what the
    present generation gives. ``rejoin`` says why another rebalance is due, once this one is over.
    ``proof_ms`` is when the last request left that the coordinator answered as to a living member,
    ``steady_ms`` when the last one left that it answered as to a member of a settled group.
    ``topics`` is what it told the group that it reads; as leader it knows ``group_topics``, and the
    partitions ``seen`` that it has divided (None: somebody before it did); ``withheld`` says that
    some are nobody's, or may be, until their owner has given them up.
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
    proof_ms: int = 0
    steady_ms: int = 0
    sent_ms: int = 0
    paused: bool = False
    looking: bool = False
    look_at_ms: int = 0
