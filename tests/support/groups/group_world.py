"""A group of our members around a model coordinator: a network that is late and loses, members that
die, a log that grows. Everything follows from a seed.

The members are the real state machine (:mod:`group_member`). The coordinator is the broker's own
decisions (:mod:`group_coordinator`). What must hold (:mod:`group_invariants`) is looked at after
every step.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import group_invariants
from group_coordinator import Coordinator
from group_member import TOPICS, Member

from tallymark.client.group.state_machine import events as ev
from tallymark.groups.group import GroupConfig
from tallymark.groups.offsets import Commit, Committer
from tallymark.protocol.topic_partition import TopicPartition


@dataclass
class World:
    """One group, its coordinator, its log, the clock."""

    seed: int
    strategy: str

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        config = GroupConfig(min_session_timeout_ms=1, initial_rebalance_delay_ms=500)
        self.coordinator = Coordinator(config)
        self.ends = {(topic, number): 0 for topic in TOPICS for number in range(3)}
        self.delivered: dict[TopicPartition, int] = defaultdict(int)
        self.members: dict[str, Member] = {}
        self.parked: dict[int, Callable[[Any], None]] = {}
        self.requests = 0
        self.restarts = 0
        self.handed_out = 0
        self.repeated = 0
        self.coordinator_down = False
        self.calm = False
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._names = count()

    @property
    def now(self) -> int:
        return self.coordinator.ms

    # -- time ---------------------------------------------------------------------------------

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.now + delay_ms, next(self._order), work))

    def run(self, ms: int) -> None:
        """Let time pass; what is due happens at its moment."""
        end = self.now + ms
        steps = 0
        while self._later and self._later[0][0] <= end:
            steps += 1
            assert steps < 100 * (10 + ms), "time stands still"
            due, _, work = heapq.heappop(self._later)
            self._pass(due)
            work()
            self.answer_parked()
            group_invariants.check(self)
        self._pass(end)

    def _pass(self, until: int) -> None:
        while self.now < until:
            due = self.coordinator.group.next_deadline_ms
            step = until if due is None else min(max(due, self.now + 1), until)
            self.coordinator.wait(step - self.now)
            self.answer_parked()

    def answer_parked(self) -> None:
        for ticket in [t for t in self.parked if t in self.coordinator.answers]:
            self.parked.pop(ticket)(self.coordinator.answers[ticket])

    # -- what happens -------------------------------------------------------------------------

    def join(self, instance: str | None = None) -> Member:
        name = f"c{next(self._names)}"
        member = self.members[name] = Member(self, name, instance)
        member.tell(ev.Tick())
        return member

    def restart_coordinator(self) -> None:
        """Requests that wait get no answer; connections break."""
        self.restarts += 1
        self.parked.clear()
        self.coordinator.restart()
        for member in list(self.members.values()):
            member.break_connections()

    def grow(self) -> None:
        """A topic gets another partition."""
        topic = self.random.choice(TOPICS)
        number = sum(1 for name, _ in self.ends if name == topic)
        self.ends[topic, number] = 0

    def publish(self) -> None:
        for place in self.ends:
            self.ends[place] += self.random.randrange(3)

    def commit(
        self, member: Member, positions: Mapping[TopicPartition, int], who: Committer
    ) -> list[int]:
        """A commit arrives at the coordinator."""
        codes = self.coordinator.commit([Commit(*at) for at in flat(positions)], who)
        stored = [at for at, code in zip(positions, codes, strict=True) if not code]
        group_invariants.nothing_is_stored_ahead(self, stored)
        group_invariants.nobody_stores_what_another_holds(self, member, stored)
        return codes

    def stored(self, place: TopicPartition) -> int:
        found = self.coordinator.state.offsets.get("g", *place)
        return 0 if found is None else found.offset

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members.values() if member.alive]


def flat(positions: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    return [(*place, offset) for place, offset in positions.items()]
