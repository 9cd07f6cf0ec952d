"""A simulated cluster with transactions: producers, partitions, a coordinator and a group, in
virtual time. All of it follows from a plan.

:func:`run` runs one plan to its end and raises :class:`Broken` with the history.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from simulated_agenda import Agenda
from simulated_shrinking import shrunk
from txn_client import GROUPS, TransactionalClient
from txn_coordinator import Coordinator, leader_of
from txn_copier import COPY, Copier
from txn_invariants import Broken, Invariants
from txn_network import AskingBrokers, Network
from txn_partition import SimulatedPartition, Value
from txn_plan import CHAOS_MS, Event, Plan

from tallymark.groups.records import CommittedOffset, OffsetKey
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.state import record_of
from tallymark.transactions.transaction import begun

HEALED_MS: Final = 40_000
"""So long after all faults every transaction is over."""
_SHARD_LOG: Final = "tallymark.broker.transactions.shard"


@dataclass(slots=True)
class Told:
    """A transaction as its client knows it. ``phase``: open, commit asked, committed, abort asked,
    aborted."""

    client: TransactionalClient
    phase: str = "open"
    asked_at: int | None = None
    """When its commit was asked for."""
    at: int | None = None
    """When its client heard of the end."""
    sent: list[tuple[TopicPartition, Value]] = field(
        default_factory=list[tuple[TopicPartition, Value]]
    )


class World:
    """One run. ``history`` is what happened, for people."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.agenda = Agenda()
        self.network = Network(self.agenda, self.random)
        self.brokers = AskingBrokers(self)
        self.history: list[tuple[int, str, tuple[object, ...]]] = []
        self.ending = False
        self.transactions: dict[int, Told] = {}
        self.copied: dict[Value, Value] = {}
        """Copy -> what it is a copy of."""
        self._lives = self._values = self._positions = 0
        self.check = Invariants(self)
        self.outputs: list[TopicPartition] = [("t", at) for at in range(plan.partitions)]
        self.partitions = {
            place: SimulatedPartition(self, place) for place in (*self.outputs, COPY, GROUPS)
        }
        self.coordinator = Coordinator(self)
        self.living: list[TransactionalClient] = []

    # --- a run

    def run(self) -> None:
        """Chaos by the plan, then everything is healed and must become whole."""
        for number, implicit in enumerate(self.plan.writers):
            self._begin(TransactionalClient, f"writer {number}", implicit)
        if self.plan.copier is not None:
            self._begin(Copier, "copier", self.plan.copier)
        for event in self.plan.events:
            self.agenda.at(event.at_ms, self._happens, event)
        self._until(CHAOS_MS, lambda: False)
        self.note("all is healed")
        self.network.heal()
        self.ending = True
        if not self._until(self.agenda.now_ms + HEALED_MS, lambda: not self.check.whole()):
            raise Broken("nothing_hangs", self.check.whole())
        self.check.at_the_end()

    def _until(self, time_ms: int, enough: Callable[[], bool]) -> bool:
        agenda, steps = self.agenda, 0
        while agenda.now_ms < time_ms and agenda.step():
            steps += 1
            if steps % 64 == 0 and enough():
                return True
        return enough()

    def _begin(self, kind: type[TransactionalClient], name: str, implicit: bool) -> None:
        if self.plan.first_epoch and self._is_new(name):
            return self.agenda.after(20, self._begin, kind, name, implicit)
        self.living.append(kind(self, name, implicit))
        return None

    def _is_new(self, name: str) -> bool:
        """Gives a new id its first epoch."""
        leader = self.coordinator.leader
        if leader is None:
            return True
        if leader.shard.state.get(name) is None:
            self._lives += 1
            first = begun(name, self._lives, 1_000, self.agenda.now_ms)
            first = replace(first, producer_epoch=self.plan.first_epoch)
            leader.replayed.append([record_of(first)], self.agenda.now_ms)
        return False

    # --- for clients

    def begun(self, client: TransactionalClient) -> int:
        """The number of a transaction that begins."""
        number = len(self.transactions)
        self.transactions[number] = Told(client)
        return number

    def values_of(self, transaction: int, count: int) -> tuple[Value, ...]:
        """Values that were never written."""
        self._values += count
        return tuple((transaction, self._values - each) for each in range(count, 0, -1))

    def copies_of(self, transaction: int, values: Sequence[Value]) -> tuple[Value, ...]:
        """The same values in another transaction."""
        copies = self.values_of(transaction, len(values))
        self.copied.update(zip(copies, values, strict=True))
        return copies

    def next_position(self) -> int:
        """Positions of groups are unique."""
        self._positions += 1
        return self._positions

    def next_life(self) -> int:
        """Producers are numbered in the order in which they begin."""
        self._lives += 1
        return self._lives

    def ended(self, client: TransactionalClient) -> None:
        """Of itself; where it was the newest of its id, its application begins again."""
        self.living.remove(client)
        if not self.ending and all(each.name != client.name for each in self.living):
            self.agenda.after(500, self._again, client)

    def leader_of(self, place: TopicPartition) -> int:
        """Its broker."""
        return leader_of(self, place)

    # --- faults

    def _happens(self, event: Event) -> None:
        self.note("%s", event)
        number, for_ms, until = event.number, event.for_ms, self.agenda.now_ms + event.for_ms
        match event.kind:
            case "coordinator":
                self.coordinator.lose(min(for_ms, 1_500), lives_on=False)
            case "deposed":
                self.coordinator.lose(min(for_ms, 300), lives_on=True)
            case "move":
                self._partition(number).lose_lead(min(for_ms, 1_500))
            case "stall":
                self._stall(number, until)
            case "worse":
                self.network.worsen(until)
            case "commit":
                self._commit(number)
            case _:
                self._to_a_client(event)

    def _to_a_client(self, event: Event) -> None:
        if not self.living:
            return
        client = self.living[event.number % len(self.living)]
        match event.kind:
            case "kill":
                client.kill()
                self.living.remove(client)
                self.agenda.after(event.for_ms, self._again, client)
            case "hijack":
                self._again(client)
            case "pause":
                client.paused_until_ms = self.agenda.now_ms + event.for_ms
            case _:
                raise AssertionError(event.kind)

    def _again(self, client: TransactionalClient) -> None:
        if not self.ending:
            self._begin(type(client), client.name, client.implicit)

    def _partition(self, number: int) -> SimulatedPartition:
        places = list(self.partitions)
        return self.partitions[places[number % len(places)]]

    def _stall(self, number: int, until_ms: int) -> None:
        leader = self.coordinator.leader
        if number % 3 == 0 and leader is not None:
            leader.replayed.stalled_until_ms = until_ms
        else:
            self._partition(number // 3).stalled_until_ms = until_ms

    def _commit(self, number: int) -> None:
        key, position = OffsetKey("plain", "t", number % 2), self.next_position()
        self.check.offset_sent(-1, key, position)
        record = (key, CommittedOffset(position, -1, "", 0, -1))
        self.partitions[GROUPS].commit_offset(record, lambda code: None)

    # --- for people

    def note(self, text: str, *facts: object) -> None:
        """It has happened."""
        self.history.append((self.agenda.now_ms, text, facts))

    def told(self) -> list[str]:
        """The history."""
        return [f"{at:7d}  {text % facts}" for at, text, facts in self.history]


def run(plan: Plan) -> World:
    """The whole run of a plan. Raises Broken."""
    logger = logging.getLogger(_SHARD_LOG)
    was, logger.disabled = logger.disabled, True
    world = World(plan)
    try:
        world.run()
    except Broken as broken:
        broken.add_note("\n".join((str(plan), *world.told())))
        raise
    finally:
        logger.disabled = was
        for client in world.living:
            client.kill()
    return world


def broken_by(plan: Plan) -> Broken | None:
    """What the plan breaks."""
    try:
        run(plan)
    except Broken as broken:
        return broken
    return None


def shortest(plan: Plan) -> Plan:
    """A short plan that breaks the same."""
    first = broken_by(plan)
    assert first is not None

    def fails(events: Sequence[Any]) -> bool:
        found = broken_by(replace(plan, events=tuple(events)))
        return found is not None and found.name == first.name

    return replace(plan, events=tuple(shrunk(plan.events, fails, runs=100)))
