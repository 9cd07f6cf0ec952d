"""ZooKeeper as a partition needs it: sessions, broker epochs, registrations, the fence of the
controller, and the nodes of the topic and of the partition's state with compare-and-set.

What is here is the truth. Every write that was done is kept in ``writes`` until the checks have
looked at it. ``told`` counts what brokers have been told of: new leaders at once, new ISRs later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    Change,
    ChangeAssignment,
    ChangeState,
    PartitionState,
    PartitionView,
    Picture,
)

PARTITION: TopicPartition = ("t", 0)


class Topic(NamedTuple):
    """The topic's node and its settings, as one read returns them."""

    version: int
    assignment: Assignment
    min_insync: int
    unclean_allowed: bool


class Snapshot(NamedTuple):
    """What a reader has found: the topic was read first, so it may be older than the rest."""

    topic: Topic
    state: PartitionState
    brokers: Mapping[int, BrokerView]
    suspects: frozenset[int]
    revision: int
    """Counts the changes of brokers."""

    @property
    def view(self) -> PartitionView:
        topic = self.topic
        return PartitionView(topic.assignment, self.state, topic.min_insync, topic.unclean_allowed)

    def picture(self, view: PartitionView, controller_epoch: int) -> Picture:
        return Picture(self.brokers, {PARTITION: view}, controller_epoch, self.suspects)


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes. ``controller_epoch`` for a controller, ``broker_epoch`` for a broker that
    starts; -1 for none, as of a leader."""

    broker: int
    controller_epoch: int = -1
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: whether it was done, the state after it, brokers that may not join as
    of that broker epoch, and whether the author is not what it was any more."""

    done: bool
    state: PartitionState
    stale: Mapping[int, int] = field(default_factory=dict[int, int])
    is_over: bool = False


class Write(NamedTuple):
    """A write that was done, for the checks."""

    author: Author
    change: Change
    before: PartitionView
    after: PartitionView


@dataclass(slots=True)
class Nodes:
    """The tree."""

    topic: Topic
    state: PartitionState
    sessions: set[int] = field(default_factory=set[int])
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    registered: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Broker -> (broker epoch, session)"""
    leaving: dict[int, int] = field(default_factory=dict[int, int])
    reported: dict[int, int] = field(default_factory=dict[int, int])
    """Suspect -> the broker epoch in which another broker was refused by it."""
    refusing: set[int] = field(default_factory=set[int])
    """Brokers that refuse connections: their process is gone, or something is in between."""
    controller: int = 0
    """A session; 0 for none."""
    controller_epoch: int = 0
    revision: int = 0
    told: int = 0
    opened: int = 0
    writes: list[Write] = field(default_factory=list[Write])

    # --- reads

    @property
    def view(self) -> PartitionView:
        return self.read(self.topic).view

    def read(self, topic: Topic) -> Snapshot:
        """All but the topic, which was read before."""
        brokers = {
            one: BrokerView(one, epoch, leaving=self.leaving.get(one) == epoch)
            for one, (epoch, _) in self.registered.items()
        }
        suspects = frozenset(one for one in self.refusing & brokers.keys() if self.is_reported(one))
        return Snapshot(topic, self.state, brokers, suspects, self.revision)

    # --- sessions

    def open(self) -> int:
        self.opened += 1
        self.sessions.add(self.opened)
        return self.opened

    def close(self, session: int) -> bool:
        """The session ends, and with it its registration and its term."""
        if session not in self.sessions:
            return False
        self.sessions.discard(session)
        if self.controller == session:
            self.controller = 0
        for broker, (_, owner) in list(self.registered.items()):
            if owner == session:
                del self.registered[broker]
                self.revision += 1
        return True

    def elect(self, session: int) -> int:
        """The epoch of this session's term, -1 where another one has it."""
        if self.controller == 0:
            self.controller = session
            self.controller_epoch += 1
        return self.controller_epoch if self.controller == session else -1

    # --- suspects

    def report(self, broker: int, epoch: int) -> None:
        """A note in ``/brokers/suspects``."""
        if self.reported.get(broker, -1) < epoch:
            self.reported[broker] = epoch
            self.revision += 1

    def is_reported(self, broker: int) -> bool:
        """In its present registration."""
        known = self.registered.get(broker)
        return known is not None and self.reported.get(broker) == known[0]

    def is_gone(self, session: int) -> bool:
        """The broker of that session is reported, and refuses."""
        owners = [one for one, (_, owner) in self.registered.items() if owner == session]
        return any(one in self.refusing and self.is_reported(one) for one in owners)

    def depose(self, epoch: int) -> None:
        """The controller of that epoch is gone, and its node is removed."""
        if self.controller_epoch == epoch:
            self.controller = 0

    # --- registration, as coordination.cluster.broker_node does it

    def epoch_of(self, broker: int) -> tuple[int, int | None]:
        """The version of the epoch node, and whose session is registered."""
        known = self.registered.get(broker)
        return self.epochs.get(broker, 0), known[1] if known else None

    def raise_epoch(self, broker: int, expected: int) -> int | None:
        """None: another process was faster."""
        if self.epochs.get(broker, 0) != expected:
            return None
        self.epochs[broker] = expected + 1
        return expected + 1

    def register(self, broker: int, expected: int, session: int) -> int | None:
        if broker in self.registered or self.epochs.get(broker, 0) != expected:
            return None
        self.epochs[broker] = expected + 1
        self.registered[broker] = (expected + 1, session)
        self.revision += 1
        return expected + 1

    # --- writes, as coordination.replicas.writing does them

    def write(self, author: Author, change: Change) -> Written:
        """Compare-and-set, under the author's condition."""
        if not self.is_valid(author):
            return Written(False, self.state, is_over=True)
        stale = self.stale(change)
        if stale or change.expected != self.state.version:
            return Written(False, self.state, stale)
        if isinstance(change, ChangeAssignment) and change.before != self.topic.assignment:
            return Written(False, self.state)
        before = self.view
        if isinstance(change, ChangeAssignment):
            version = self.topic.version + 1
            self.topic = self.topic._replace(version=version, assignment=change.assignment)
        if change.state is not None:
            self.state = replace(change.state, version=self.state.version + 1)
        old, new = before.state, self.state
        is_isr = isinstance(change, ChangeState) and old.leader_epoch == new.leader_epoch
        if not is_isr:
            self.told += 1
        self.writes.append(Write(author, change, before, self.view))
        return Written(True, self.state)

    def is_valid(self, author: Author) -> bool:
        """The fence of a controller; the epoch of a broker that starts."""
        if author.controller_epoch >= 0:
            return author.controller_epoch == self.controller_epoch
        return author.broker_epoch < 0 or author.broker_epoch == self.epochs.get(author.broker)

    def stale(self, change: Change) -> dict[int, int]:
        """Those that may not join: as another registration, or not assigned."""
        if not isinstance(change, ChangeState):
            return {}
        return {
            one: epoch
            for one, epoch in change.joining.items()
            if self.epochs.get(one) != epoch or one not in self.topic.assignment.replicas
        }

    def configure(self, min_insync: int, unclean_allowed: bool) -> None:
        version = self.topic.version + 1
        self.topic = Topic(version, self.topic.assignment, min_insync, unclean_allowed)
        self.told += 1
