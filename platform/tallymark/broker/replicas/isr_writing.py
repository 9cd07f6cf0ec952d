"""Writes the changes of ISRs that leaders ask for, those of all partitions together.

While one call of the :class:`~tallymark.broker.metadata.port.StateWriter` is under way, further
changes gather for the next one; a partition has one change under way at a time, by the rules of its
leader. Each change ends as

=========  =============================================================================
done       the leader goes on with the new state
refused    the node has changed, or a broker that was to join has registered again
unknown    the node is read again before the leader decides anything else (KAFKA-2729)
=========  =============================================================================
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from tallymark.broker.metadata.port import StateOutcome, StateWriter
from tallymark.broker.metrics.counters import ReplicationMetrics
from tallymark.broker.replicas.lead import ReplicatedLead
from tallymark.coordination.replicas.writing import Fate
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.changes import MOST_STATES
from tallymark.replication.model import ChangeState, PartitionState

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.2
"""The pause after a round in which nothing was settled."""


class Wish(NamedTuple):
    """``change`` is what ``lead`` wants; ``before`` is the ISR that it was decided from."""

    lead: ReplicatedLead
    change: ChangeState
    before: tuple[int, ...]


class IsrWriter:
    """The changes that one broker asks for. Belongs to the event loop."""

    def __init__(self, writer: StateWriter, metrics: ReplicationMetrics) -> None:
        self._writer = writer
        self._metrics = metrics
        self._due: list[Wish] = []
        self._unknown: dict[TopicPartition, Wish] = {}
        self._wanted = asyncio.Event()

    def wished(self, lead: ReplicatedLead, change: ChangeState) -> None:
        """Write ``change`` with the next call."""
        self._due.append(Wish(lead, change, lead.leader.state.isr))
        self._wanted.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self._due and not self._unknown:
                self._wanted.clear()
                await self._wanted.wait()
            if not await self.write():
                await asyncio.sleep(RETRY_SECONDS)

    async def write(self) -> bool:
        """One round: read what is not known, then write what is due. False where nothing was
        settled by it: another one at once would not help."""
        settled = await self._read_again()
        wishes = [each for each in self._due[:MOST_STATES] if not each.lead.is_over]
        del self._due[:MOST_STATES]
        if not wishes:
            return settled or not self._unknown
        outcomes = await self._writer.write_states([each.change for each in wishes])
        for wish, outcome in zip(wishes, outcomes, strict=True):
            self._settle(wish, outcome)
        return settled or any(each.fate is Fate.DONE for each in outcomes)

    async def _read_again(self) -> bool:
        """Whether something was learnt."""
        for key, wish in list(self._unknown.items()):
            if wish.lead.is_over:
                del self._unknown[key]
        if not self._unknown:
            return False
        states = await self._writer.read_states(tuple(self._unknown))
        for key, state in states.items():
            if key in self._unknown:
                self._known_now(self._unknown.pop(key), state)
        return bool(states)

    def _known_now(self, wish: Wish, state: PartitionState) -> None:
        change = wish.change
        if state.version > change.expected and state.isr == change.state.isr:
            self._tell(wish, state)
        wish.lead.answered(state)

    def _settle(self, wish: Wish, outcome: StateOutcome) -> None:
        lead, state = wish.lead, outcome.state
        if outcome.fate is Fate.REFUSED:
            self._failed(wish, outcome)
            lead.refused(state, outcome.stale)
        elif outcome.fate is Fate.UNKNOWN or state is None:
            self._failed(wish, outcome)
            self._unknown[wish.change.partition] = wish
            lead.answered(None)
        else:
            self._tell(wish, state)
            lead.answered(state)

    def _failed(self, wish: Wish, outcome: StateOutcome) -> None:
        self._metrics.isr_changes[outcome.fate.value] += 1
        log.info(
            "isr not changed partition=%s isr=%s wanted=%s (%s): %s: %s",
            wish.lead.partition,
            wish.before,
            wish.change.state.isr,
            wish.change.why,
            outcome.fate.value,
            outcome.why,
        )

    def _tell(self, wish: Wish, state: PartitionState) -> None:
        before, after = set(wish.before), set(state.isr)
        if before - after:
            self._metrics.isr_changes["shrink"] += 1
        if after - before:
            self._metrics.isr_changes["expand"] += 1
        if before == after:
            self._metrics.isr_changes["settle"] += 1
        log.info(
            "isr changed partition=%s isr=%s before=%s version=%d: %s",
            wish.lead.partition,
            state.isr,
            wish.before,
            state.version,
            wish.change.why,
        )
