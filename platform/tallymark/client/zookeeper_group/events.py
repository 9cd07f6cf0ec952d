"""The words of the consumer's state machine: phases, actions, events, state. Pure data.

:mod:`.machine` has the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tallymark.client.consuming.assignment import Assignment
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition


class Phase(Enum):
    """The phase of a consumer; REGISTERING to LOADING and the LEAVING_ ones await an answer."""

    OFFLINE = "offline"
    REGISTERING = "registering"
    READING = "reading"
    COMMITTING = "committing"
    RELEASING = "releasing"
    CLAIMING = "claiming"
    LOADING = "loading"
    WAITING = "waiting"
    RUNNING = "running"
    LEAVING_COMMIT = "leaving: commit"
    LEAVING_RELEASE = "leaving: release"
    LEAVING_GROUP = "leaving: group"
    CLOSED = "closed"


# -- actions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Register:
    """Remote: make the membership node stand in the present session."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """Remote: set watches on members, topics and brokers, then read them; answer Membership."""

    ticket: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Remote: store how far the application has come."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ReleaseOwners:
    """Remote: delete the owner nodes of these partitions that are this session's own."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ClaimOwners:
    """Remote: create the owner nodes, in that session or not at all; answer Done, or Refused when
    somebody else's stands."""

    ticket: int
    partitions: tuple[TopicPartition, ...]
    session: int


@dataclass(frozen=True, slots=True)
class LoadOffsets:
    """Remote: read the stored offsets of the claimed partitions."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Remote: delete the membership node."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Hand out nothing until Resume or StartFetchers."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on from where Pause was: ownership stood all the time."""


@dataclass(frozen=True, slots=True)
class StopFetchers:
    """Drop what was fetched and not handed out; hand out nothing more. Positions are kept."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the positions: the partitions are no longer this consumer's."""


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """Fetch these partitions into these streams, from the offsets just loaded."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing is left to do."""


Action = (
    Register
    | ReadMembership
    | CommitOffsets
    | ReleaseOwners
    | ClaimOwners
    | LoadOffsets
    | LeaveGroup
    | Pause
    | Resume
    | StopFetchers
    | Forget
    | StartFetchers
    | Close
)

# -- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """The session is open: the same as before or, after Lost, another one."""

    session: int


@dataclass(frozen=True, slots=True)
class Suspended:
    """No answer; whether the session lives is unknown."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The session is over."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A watch fired: members, topics, partitions or brokers may have changed."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The application is done: leave the group in order."""


@dataclass(frozen=True, slots=True)
class Done:
    """The remote action succeeded."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The remote action failed, or it is not known whether it was done."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A claim met another consumer's owner node; some of the claim may stand."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Membership:
    """What was read: the group's members, and the partitions of the topics of this consumer."""

    ticket: int
    members: Mapping[str, Subscription]
    partitions: Mapping[str, Sequence[int]]


Event = Connected | Suspended | Lost | Changed | Tick | Stop | Done | Failed | Refused | Membership

# -- state ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """Everything the machine knows.

    ``held`` are the partitions whose owner nodes of this session may stand (a superset while a
    claim's result is unknown); ``running`` says that all of them do and are consumed. ``target`` is
    what to claim next, None when that must be read first. ``changed`` remembers a watch that
    fired while something else was under way.
    """

    consumer: str
    phase: Phase = Phase.OFFLINE
    session: int = 0
    registered: bool = False
    held: Assignment = field(default_factory=dict[TopicPartition, int])
    running: bool = False
    target: Assignment | None = None
    changed: bool = False
    attempts: int = 0
    wake_ms: int | None = None
    ticket: int = 0
