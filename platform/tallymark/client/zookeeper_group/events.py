"""The types of the consumer's state machine: phases, actions, events, state. Pure data.

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
    """The phase of a consumer; REGISTERING to LOADING and the LEAVING_ ones wait for the result of
    an action."""

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
    """Remote: make sure that the membership node exists, in the present session."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ReadMembership:
    """Remote: set watches on members, topics and brokers, then read them; answer Membership."""

    ticket: int


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Remote: store the offsets up to which the application has processed messages."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ReleaseOwners:
    """Remote: delete the owner nodes of these partitions that are this session's own."""

    ticket: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ClaimOwners:
    """Remote: create the owner nodes, in that session or not at all; answer Done, or Refused when
    another consumer's node exists."""

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
    """Give the application no messages until Resume or StartFetchers."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue from where Pause was: the partitions were owned all the time."""


@dataclass(frozen=True, slots=True)
class StopFetchers:
    """Drop fetched messages that the application did not get, and give it no more. Positions are
    kept."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the positions: the partitions are no longer this consumer's."""


@dataclass(frozen=True, slots=True)
class StartFetchers:
    """Fetch these partitions into these streams, from the offsets just loaded."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Close:
    """The consumer has left the group; nothing is left to do."""


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
    """ZooKeeper does not answer; it is not known whether the session is still open."""


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
    """A claim found another consumer's owner node; some nodes of the claim may exist now."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The result of ReadMembership: the group's members, and the partitions of the topics of this
    consumer."""

    ticket: int
    members: Mapping[str, Subscription]
    partitions: Mapping[str, Sequence[int]]


Event = Connected | Suspended | Lost | Changed | Tick | Stop | Done | Failed | Refused | Membership

# -- state ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """Everything the machine knows.

    ``held`` are the partitions whose owner nodes of this session may exist (a superset while a
    claim's result is unknown); ``running``: all of them exist, and the partitions are consumed.
    ``target`` is what to claim next; None when the membership must be read first. ``changed``
    remembers a watch that fired while an action was under way.
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
