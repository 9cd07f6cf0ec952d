"""The events of a group member's state machine: answers, time, the application. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallymark.client.group.state_machine.assignors import GroupMember, Partitions
from tallymark.protocol.topic_partition import TopicPartition


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
    """No coordinator was found."""


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
    """No answer: it is not known whether it was done."""

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
