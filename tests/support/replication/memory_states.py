"""State nodes in memory, written by compare-and-set: a StateWriter with faults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from tallymark.broker.metadata.port import StateOutcome
from tallymark.coordination.replicas.writing import Fate
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import ChangeState, PartitionState


class Fault(Enum):
    """What happens to the next call of ``write_states``."""

    ANSWER_LOST = "all is written, and the outcome is unknown"
    REQUEST_LOST = "nothing is written, and the outcome is unknown"
    LATE = "the outcome is unknown; it is written by MemoryStates.execute_late()"
    NOT_SENT = "nothing is written, that is known, but not what the nodes hold"


class MemoryStates:
    """``states`` are the nodes, ``epochs`` the broker epochs of the registered brokers. ``calls``
    are the changes of each call. While ``gate`` is not set, writes wait before they do anything."""

    def __init__(
        self, states: Mapping[TopicPartition, PartitionState], epochs: Mapping[int, int]
    ) -> None:
        self.states = dict(states)
        self.epochs = dict(epochs)
        self.calls: list[list[ChangeState]] = []
        self.faults: list[Fault] = []
        self.can_read = True
        self.gate = asyncio.Event()
        self.gate.set()
        self._late: list[ChangeState] = []

    async def write_states(self, changes: Sequence[ChangeState]) -> Sequence[StateOutcome]:
        """See :class:`tallymark.broker.metadata.port.StateWriter`."""
        self.calls.append(list(changes))
        await self.gate.wait()
        await asyncio.sleep(0)
        fault = self.faults.pop(0) if self.faults else None
        if fault is Fault.NOT_SENT:
            return [StateOutcome(each, Fate.REFUSED, None, why="not sent") for each in changes]
        if fault is Fault.LATE:
            self._late += changes
        if fault in (Fault.REQUEST_LOST, Fault.LATE):
            return [StateOutcome(each, Fate.UNKNOWN, None, why="no answer") for each in changes]
        outcomes = [self._write(each) for each in changes]
        if fault is Fault.ANSWER_LOST:
            return [StateOutcome(each, Fate.UNKNOWN, None, why="no answer") for each in changes]
        return outcomes

    async def read_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState]:
        """See :class:`tallymark.broker.metadata.port.StateWriter`."""
        await asyncio.sleep(0)
        if not self.can_read:
            return {}
        return {key: self.states[key] for key in partitions if key in self.states}

    def execute_late(self) -> None:
        """Transactions that were under way reach the nodes now."""
        late, self._late = self._late, []
        for change in late:
            self._write(change)

    def by_others(self, key: TopicPartition, **changed: object) -> PartitionState:
        """Another writer changes the node."""
        before = self.states[key]
        after = replace(before, version=before.version + 1, **changed)  # type: ignore[arg-type]
        self.states[key] = after
        return after

    def _write(self, change: ChangeState) -> StateOutcome:
        now = self.states[change.partition]
        if change.expected != now.version:
            return StateOutcome(change, Fate.REFUSED, now, why=f"the version is {now.version}")
        stale = {
            broker: epoch
            for broker, epoch in change.joining.items()
            if self.epochs.get(broker) != epoch
        }
        if stale:
            return StateOutcome(change, Fate.REFUSED, now, stale, f"{stale} are over")
        after = replace(change.state, version=now.version + 1)
        self.states[change.partition] = after
        return StateOutcome(change, Fate.DONE, after, why=change.why)
