"""What pages get: clusters, topics and groups as they were read last. Immutable; times in ms.

Each :class:`Part` has an age and an error of its own: brokers may answer while the coordinator of
the groups does not. A part that was never read has ``at`` 0, and its value is empty: that means
"not known", never "there is nothing". Two states are equal when they show the same; when they were
read makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Literal, TypeVar

from tallymark.client.admin.cluster import BrokerDescription, ClusterDescription
from tallymark.client.admin.groups import MemberDescription
from tallymark.protocol.topic_partition import TopicPartition

__all__ = ["BrokerDescription", "ClusterDescription", "MemberDescription"]

T = TypeVar("T")
Kept = Literal["brokers", "zookeeper"]
WhichWay = Literal["left", "joined"]
_PATIENCE_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """``value`` as it was read at ``at`` (0: never). ``tried`` is the last attempt, ``error`` why
    it failed ("": it did not). It is read again every ``every`` ms, later while its cluster is
    away."""

    value: T
    at: int = field(default=0, compare=False)
    tried: int = field(default=0, compare=False)
    error: str = ""
    every: int = field(default=10_000, compare=False)

    def age(self, now: int) -> int | None:
        """How old the value is (ms); None: it was never read."""
        return max(0, now - self.at) if self.at else None

    def stale(self, now: int) -> bool:
        """Whether the value is older than three readings, or was never read."""
        age = self.age(now)
        return age is None or age > 3 * self.every + _PATIENCE_MS


class Status(StrEnum):
    """How a group does with a partition, or with the worst of its partitions (:mod:`.status`)."""

    OK = "OK"
    UNKNOWN = "UNKNOWN"
    WARN = "WARN"
    STALLED = "STALLED"
    STOPPED = "STOPPED"


WORST_LAST: Final = (Status.OK, Status.UNKNOWN, Status.WARN, Status.STALLED, Status.STOPPED)


@dataclass(frozen=True, slots=True)
class Delay:
    """How far behind in time (ms). ``least``: it is at least that much; the ends of the log were
    not watched for as long."""

    ms: int
    least: bool = False


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition: broker ids of its leader (-1: none) and replicas; ``start`` and ``end`` of its
    log (``end`` excluded), None while they are not known. ``offline``: replicas whose broker or
    disk is not there."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start: int | None = None
    end: int | None = None
    offline: tuple[int, ...] = ()

    @property
    def leaderless(self) -> bool:
        """No broker leads it: it can neither be written nor read."""
        return self.leader < 0

    @property
    def under_replicated(self) -> bool:
        """A replica is not in sync."""
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic of one cluster. ``ends_at``: when starts and ends were read, 0 never.
    ``min_insync``: its min.insync.replicas, read only of topics with a replica out of sync; None:
    not known."""

    name: str
    internal: bool
    partitions: tuple[PartitionState, ...]
    ends_at: int = field(default=0, compare=False)
    min_insync: int | None = None

    def below_min(self, one: PartitionState) -> bool:
        """Whether the partition refuses acks=all: fewer replicas are in sync than
        min.insync.replicas asks for, or than there are (KIP-966). False where that is not known,
        and without a leader, which is worse."""
        least = min(self.min_insync or 0, len(one.replicas))
        return not one.leaderless and len(one.isr) < least

    @property
    def leaderless(self) -> tuple[int, ...]:
        """Partitions without a leader."""
        return tuple(one.partition for one in self.partitions if one.leaderless)

    @property
    def under_replicated(self) -> tuple[int, ...]:
        """Partitions with a replica that is not in sync."""
        return tuple(one.partition for one in self.partitions if one.under_replicated)


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """A group and one partition. ``offset`` is the next one it reads (None: none committed);
    ``lag`` in messages, None where an end is not known; ``owner`` is a member's id ("": none).
    ``behind_open``: so many messages of the log are behind an open transaction, where readers of
    committed ones end."""

    topic: str
    partition: int
    offset: int | None
    start: int | None
    end: int | None
    lag: int | None
    delay: Delay | None
    owner: str = ""
    status: Status = Status.UNKNOWN
    why: str = ""
    behind_open: int = 0

    @property
    def committed_lag(self) -> int | None:
        """The lag of a reader of committed messages: to where it can get now."""
        if self.lag is None:
            return None
        return max(0, self.lag - self.behind_open)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a coordinator has open, or whose markers are on their way: ``state`` is
    Kafka's name; ``started`` in ms (-1: not known); ``behind``: the most messages of one of its
    ``partitions`` that readers of committed ones cannot read yet."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    started: int = -1
    timeout_ms: int = 0
    partitions: tuple[TopicPartition, ...] = ()
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition in which readers of committed messages stand at ``stable``, ``behind`` messages
    before its end. ``known``: a transaction that a coordinator has open is there."""

    topic: str
    partition: int
    stable: int
    behind: int
    known: bool


@dataclass(frozen=True, slots=True)
class Transactions:
    """What is open in a cluster, the oldest first; ``count`` also counts those that are left out.
    ``standing``: the partitions with the most messages behind first."""

    opened: tuple[OpenTransaction, ...] = ()
    standing: tuple[Standing, ...] = ()
    count: int = 0
    standing_count: int = 0


@dataclass(frozen=True, slots=True)
class CoursePoint:
    """The lag of a group at one time; ``delay_ms`` is -1 where it was not known."""

    at: int
    lag: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group. ``kept`` says where it is; ``at`` when its offsets were read (0: not yet), ``error``
    why they could not be. ``lag`` is the sum over its partitions (None: not known for any),
    ``delay`` the largest, ``status`` the worst. Its course is
    :meth:`~.holder.Snapshots.course_of`."""

    group: str
    kept: Kept
    state: str
    protocol: str = ""
    coordinator: int = -1
    members: tuple[MemberDescription, ...] = ()
    partitions: tuple[GroupPartition, ...] = ()
    at: int = field(default=0, compare=False)
    error: str = ""
    lag: int | None = None
    delay: Delay | None = None
    status: Status = Status.UNKNOWN
    why: str = ""


@dataclass(frozen=True, slots=True)
class TopicLag:
    """What one group lacks of one topic, for a column beside the topic."""

    cluster: str
    group: str
    lag: int | None
    delay: Delay | None
    status: Status


@dataclass(frozen=True, slots=True)
class IsrChange:
    """Broker ``broker`` left the ISR of ``count`` partitions, or joined it; the first are ``named``
    ("orders-3"). Seen at ``at`` (ms), after the look before it at ``after``. ``led``: how many of
    them it led before."""

    at: int
    after: int
    broker: int
    change: WhichWay
    why: str
    count: int
    named: tuple[str, ...]
    led: int = 0


def _no_topics() -> Part[Mapping[str, TopicState]]:
    return Part({})


def _no_groups() -> Part[Mapping[str, GroupState]]:
    return Part({})


def _no_transactions() -> Part[Transactions]:
    return Part(Transactions())


def _no_brokers() -> Part[ClusterDescription | None]:
    return Part(None)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster of the deployment. ``groups`` are those that brokers keep, ``zookeeper`` those of
    consumers that coordinate themselves there. ``left_out`` says what the bounds of memory cut off
    ("": nothing). ``isr_changes``: those that were seen, the newest first;
    ``short_since``: of each partition with a replica out of sync when that was seen first (ms)."""

    name: str
    address: str = ""
    brokers: Part[ClusterDescription | None] = field(default_factory=_no_brokers)
    topics: Part[Mapping[str, TopicState]] = field(default_factory=_no_topics)
    groups: Part[Mapping[str, GroupState]] = field(default_factory=_no_groups)
    zookeeper: Part[Mapping[str, GroupState]] = field(default_factory=_no_groups)
    left_out: str = ""
    isr_changes: tuple[IsrChange, ...] = ()
    short_since: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    transactions: Part[Transactions] = field(default_factory=_no_transactions)

    def group(self, name: str) -> GroupState | None:
        """The group of that name; the brokers' first."""
        return self.groups.value.get(name) or self.zookeeper.value.get(name)

    @property
    def all_groups(self) -> tuple[GroupState, ...]:
        """Groups of the brokers, then of ZooKeeper."""
        return (*self.groups.value.values(), *self.zookeeper.value.values())
