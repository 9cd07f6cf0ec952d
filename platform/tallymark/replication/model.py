"""The shapes that replication decides about.

A partition has an *assignment* (which brokers should hold it), a *state* (who leads it in which
epoch, and who is in sync), and each broker has a *view* in the picture of the controller. State and
views change in nodes of their own, so every decision names the version of the node that it was
taken from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tallymark.protocol.topic_partition import TopicPartition

NO_LEADER: Final = -1
UNKNOWN_EPOCH: Final = -1
"""A broker epoch or leader epoch that is not known: of a log without records, of older requests."""
_MIN_INSYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a broker's log of a partition ends: the epoch of its last record (-1 for an empty log)
    and the offset after it. Of two tails the greater one has more of what was committed."""

    last_epoch: int
    end: int

    def __lt__(self, other: Tail) -> bool:
        return (self.last_epoch, self.end) < (other.last_epoch, other.end)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The brokers of a partition, the preferred leader first. During a reassignment (KIP-455)
    ``replicas`` is the union, ``adding`` and ``removing`` say which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment; without one, all."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas before the reassignment; without one, all."""
        return tuple(one for one in self.replicas if one not in self.adding)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state node of a partition: the one truth about its leader and its ISR.

    ``leader`` is -1 while there is none. ``leader_epoch`` rises with every change of the leader;
    ``version`` is the node's, which counts every change and is what a compare-and-set names.
    ``isr`` never is smaller than min(min.insync.replicas, replicas) by a decision of leader or
    controller: who is dead stays in it, and the high watermark waits. ``incomplete`` are
    brokers that left the ISR themselves, because their logs may lack a tail since a power failure,
    each with the tail that it has; they may not vote until they are in the ISR again.
    ``unclean`` is true since a leader was elected that may lack committed records, the last time in
    leader epoch ``unclean_epoch`` (-1: it is not known in which): what others cut since is kept.
    ``others`` are fields of the node that this version does not know; they are written back as they
    were read.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    version: int = -1
    incomplete: Mapping[int, Tail] = field(default_factory=dict[int, Tail])
    unclean: bool = False
    unclean_epoch: int = -1
    others: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def is_elected_unclean(self) -> bool:
        """Whether this leader may lack committed records, and was elected just now."""
        return self.unclean and self.isr == (self.leader,)

    @property
    def leads_unclean(self) -> bool:
        """Whether this leader was elected, in this leader epoch, though it may lack records."""
        return self.unclean and self.unclean_epoch == self.leader_epoch


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that is registered. ``epoch`` is raised at each registration (KIP-380): a broker
    that came back under the same id is another one. ``leaving``: it wants to stop and should lead
    nothing. ``rack`` is "" for none."""

    id: int
    epoch: int
    rack: str = ""
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as the controller sees it. ``min_insync`` is the topic's min.insync.replicas as
    configured; ``unclean_allowed`` is its unclean.leader.election.enable."""

    assignment: Assignment
    state: PartitionState
    min_insync: int = 1
    unclean_allowed: bool = False

    @property
    def least_isr(self) -> int:
        """The ISR may not get smaller than this by a decision."""
        return least_isr(self.min_insync, len(self.assignment.replicas))


@dataclass(frozen=True, slots=True)
class Picture:
    """All that the controller decides from: the brokers that live, those that are suspected (a
    leader or follower was refused a connection, and so was the controller), the partitions."""

    brokers: Mapping[int, BrokerView]
    partitions: Mapping[TopicPartition, PartitionView]
    controller_epoch: int
    suspects: frozenset[int] = frozenset()

    def is_up(self, broker: int) -> bool:
        """Registered and not suspected: it may be elected."""
        return broker in self.brokers and broker not in self.suspects


@dataclass(frozen=True, slots=True)
class ChangeState:
    """A wish: write ``state`` if the node's version still is ``expected`` (for the controller also
    only under the guard of its epoch). ``why`` is for logs, metrics and the audit: a clause in
    plain words, as "broker 2 does not answer". ``joining`` has the brokers that enter the ISR, with
    the broker epoch in which each was seen to be in sync: the write must fail unless those still
    are the current ones (KIP-903), and unless they are assigned still: a replica of a cancelled
    reassignment deletes its log."""

    partition: TopicPartition
    expected: int
    state: PartitionState
    why: str
    joining: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(frozen=True, slots=True)
class ChangeAssignment:
    """A wish: write the partition's ``assignment`` into its topic's node, if it still is ``before``
    there and the state node still is of version ``expected``; other partitions of the topic stay as
    they are. ``state``, where it is given, is written in the same transaction: an ISR never names a
    broker that is not assigned. Brokers that are in ``before`` but not in ``assignment`` delete
    their logs later."""

    partition: TopicPartition
    before: Assignment
    assignment: Assignment
    expected: int
    why: str
    state: PartitionState | None = None


Change: TypeAlias = ChangeState | ChangeAssignment


def least_isr(min_insync: int, replicas: int) -> int:
    """min(min.insync.replicas, replicas), at least 1: below it an ISR never shrinks. KIP-966 gives
    the same promise with a list of eligible leaders beside a smaller ISR."""
    return max(1, min(min_insync, replicas))


class TopicSettings(NamedTuple):
    """min.insync.replicas as configured, and unclean.leader.election.enable."""

    min_insync: int = 1
    unclean_allowed: bool = False


DEFAULTS: Final = TopicSettings()
"""What holds where neither the topic nor the brokers set anything."""


def settings_of(config: Mapping[str, str], defaults: TopicSettings = DEFAULTS) -> TopicSettings:
    """From the topic's own settings. A value that is no number, or neither true nor false, is the
    default: setting it is refused elsewhere."""
    if not config:
        return defaults
    least = config.get(_MIN_INSYNC, "")
    unclean = config.get(_UNCLEAN, "").lower()
    return TopicSettings(
        int(least) if least.isdecimal() and len(least) < 11 else defaults.min_insync,
        unclean == "true" if unclean in ("true", "false") else defaults.unclean_allowed,
    )
