"""What clients of a cluster did and saw, in a form that is independent of where it happened: in the
simulation, or on real brokers. Pure.

Values are unique. ``key`` is a partition. An operation is what succeeds or fails as one: a batch
that was sent, a poll, or a transaction of several of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Ended(Enum):
    """How an operation ended."""

    OK = "ok"
    FAILED = "failed"
    IN_DOUBT = "in doubt"


@dataclass(frozen=True, slots=True)
class Send:
    """``offset`` None: it is not known."""

    key: str
    value: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """A record that was read."""

    key: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Read:
    """What a transaction has written says that it has read this value; where is not noted. So a
    simulated copier reads: its copies name what they were made of."""

    value: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The position of a group was stored: the next record to read is that at ``offset``."""

    key: str
    offset: int


Step: TypeAlias = Send | Poll | Read | Commit


@dataclass(frozen=True, slots=True)
class Operation:
    """``assigned``: before this operation the process got other partitions, or set a position, so
    its polls need not go on where the last one ended. ``at``: when it ended, where that is known;
    ``commit_asked``: when the commit of a transaction was asked for, by the same clock."""

    process: str
    ended: Ended
    steps: Sequence[Step]
    assigned: bool = False
    at: float | None = None
    commit_asked: float | None = None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """``name`` is that of Jepsen's analyses of Redpanda and Bufstream."""

    name: str
    text: str
