"""ZooKeeper as a partition needs it: the state node with compare-and-set, broker epochs,
registrations with sessions, the controller's epoch as a guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tallymark.replication.model import BrokerView, ChangeState, PartitionState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one read returns; ``revision`` counts all changes."""

    revision: int
    state: PartitionState
    brokers: Mapping[int, BrokerView]
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a compare-and-set: whether it was done, the state after it, and the broker
    epochs that are over."""

    done: bool
    state: PartitionState
    stale: Mapping[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Registry:
    """The truth. ``changes`` has every (writer, before, after) since it was last looked at; the
    controller writes as 0."""

    state: PartitionState
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    registered: dict[int, BrokerView] = field(default_factory=dict[int, BrokerView])
    controller_epoch: int = 1
    revision: int = 0
    changes: list[tuple[int, PartitionState, PartitionState]] = field(
        default_factory=list[tuple[int, PartitionState, PartitionState]]
    )

    def read(self) -> Snapshot:
        brokers = dict(self.registered)
        return Snapshot(self.revision, self.state, brokers, self.controller_epoch)

    def raise_epoch(self, broker: int) -> int:
        self.epochs[broker] = self.epochs.get(broker, 0) + 1
        return self.epochs[broker]

    def register(self, broker: int, epoch: int) -> bool:
        """False if the broker registered again meanwhile."""
        if self.epochs[broker] != epoch:
            return False
        self.registered[broker] = BrokerView(broker, epoch)
        self.revision += 1
        return True

    def expire(self, broker: int) -> bool:
        """The session ended: the registration is gone."""
        self.revision += 1
        return self.registered.pop(broker, None) is not None

    def leave(self, broker: int, leaving: bool) -> None:
        if broker in self.registered:
            self.registered[broker] = replace(self.registered[broker], leaving=leaving)
            self.revision += 1

    def write(
        self, writer: int, change: ChangeState, controller_epoch: int | None = None
    ) -> Written:
        """Compare-and-set, for the controller under the guard of its epoch."""
        guarded = controller_epoch is None or controller_epoch == self.controller_epoch
        stale = {
            one: epoch for one, epoch in change.joining.items() if self.epochs.get(one) != epoch
        }
        if not guarded or stale or change.expected != self.state.version:
            return Written(False, self.state, stale)
        before, self.state = self.state, replace(change.state, version=self.state.version + 1)
        self.revision += 1
        self.changes.append((writer, before, self.state))
        return Written(True, self.state)
