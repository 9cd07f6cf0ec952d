"""What a group member's state machine has its shell do. Pure data.

Those with a ticket are answered (:mod:`.events`), and the answer carries it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tallymark.protocol.topic_partition import TopicPartition


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
    """SyncGroup, with the part of each member if it leads; answer Synced, Refused or Failed."""

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
    """An error that does not pass: end, and report it to the application."""

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
