"""A partition on simulated brokers: virtual time, a network that delays, reorders and drops, a
state node whose answers get lost, crashes, power failures. All of it follows from a plan.

:func:`run` runs one plan to its end and raises :class:`Broken` with the history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from simulated_agenda import Agenda
from simulated_broker import Process
from simulated_controller import decide
from simulated_disk import Disk
from simulated_invariants import Broken, Invariants
from simulated_plan import CHAOS_MS, Event, Plan
from simulated_registry import Registry
from simulated_shrinking import shrunk

from tallymark.replication.model import Assignment, ChangeState, PartitionState, Tail, least_isr

NODE: Final = 0
"""The state node's end of a link."""
SESSION_MS: Final = 1_500
CALL_TIMEOUT_MS: Final = 600
HEALED_MS: Final = 60_000
"""How long a healed cluster may take until all is whole."""
Result = TypeVar("Result")


class World:
    """One run. ``history`` is what happened, for people."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.agenda = Agenda()
        self.assignment = Assignment(plan.replicas)
        self.least = least_isr(plan.min_insync, len(plan.replicas))
        self.registry = Registry(PartitionState(1, 0, plan.replicas, version=0))
        self.disks = {one: Disk() for one in plan.replicas}
        self.processes: dict[int, Process | None] = dict.fromkeys(plan.replicas)
        self.check = Invariants(self)
        self.history: list[tuple[int, str, tuple[object, ...]]] = []
        self.session_patience_ms = self.random.choice((1_000, 1_400, 6_000))
        """After this time without ZooKeeper a broker takes its session for dead; the greatest is a
        broker that leads on though it is not registered any more."""
        self._loss = self.random.choice((0.0, 0.0, 0.01, 0.1))
        self._cut: dict[tuple[int, int], int] = {}
        self._slow: dict[tuple[int, int], int] = {}
        self._deaf: dict[int, int] = {}
        self._sessions: dict[int, int] = {}
        self._runs = 0
        self._values = 0
        self._healed = False
        self._revision_told = -1

    # --- a run

    def run(self) -> None:
        """Chaos by the plan, then everything is healed and must become whole."""
        for broker in self.plan.replicas:
            self._start(broker)
        for event in self.plan.events:
            self.agenda.at(event.at_ms + 1_000, self._happens, event)
        self._tick_all()
        self._until(CHAOS_MS + 1_000, lambda: False)
        self._heal()
        problem = ""
        if not self._until(self.agenda.now_ms + HEALED_MS, lambda: not self.check.whole()):
            problem = self.check.whole()
        if problem:
            raise Broken("eventually_whole", problem)

    def _until(self, time_ms: int, enough: Callable[[], bool]) -> bool:
        agenda, changes = self.agenda, self.registry.changes
        steps = 0
        while agenda.now_ms < time_ms:
            agenda.step()
            if changes:
                for change in changes:
                    self.note("the node: %s by %d", change[2], change[0])
                    self.check.changed(*change)
                changes.clear()
                self._tell_all()
            elif self.registry.revision != self._revision_told:
                self._tell_all()
            steps += 1
            if steps % 64 == 0 and enough():
                return True
        return enough()

    def _heal(self) -> None:
        self.note("all is healed")
        self._healed = True
        self._loss = 0.0
        self._cut.clear()
        self._slow.clear()
        self._deaf.clear()
        for broker, process in self.processes.items():
            self.registry.leave(broker, leaving=False)
            if process is None:
                self._start(broker)

    def _tick_all(self) -> None:
        for broker, process in self.processes.items():
            if process is not None:
                self._session(broker, process)
                self.at_process(process, process.tick)
                if self._healed or self.random.random() < 0.3:
                    self.read_news(process)
            elif self._missed(broker):
                self.registry.expire(broker)
        self._control()
        self.agenda.after(self.random.randrange(200, 400), self._tick_all)

    # --- sessions, news, the controller

    def _session(self, broker: int, process: Process) -> None:
        hears = not self._is_cut(broker, NODE) and not self._is_cut(NODE, broker)
        if hears and process.resumes_ms <= self.agenda.now_ms:
            process.session_ms = self._sessions[broker] = self.agenda.now_ms
        elif self._missed(broker) and self.registry.expire(broker):
            self.note("the session of %r is over", process)

    def _missed(self, broker: int) -> bool:
        return self.agenda.now_ms - self._sessions.get(broker, 0) > SESSION_MS

    def _tell_all(self) -> None:
        self._revision_told = self.registry.revision
        for process in self.processes.values():
            if process is not None:
                self.agenda.after(self.random.choice((1, 2, 40)), self.read_news, process)
        self.agenda.after(self.random.choice((5, 60)), self._control)

    def read_news(self, process: Process) -> None:
        """A watch fired or a poll is due: the node is read now, and arrives later."""
        if not self._is_cut(NODE, process.id):
            delay = self._delay(NODE, process.id)
            self.agenda.after(delay, self.at_process, process, process.news, self.registry.read())

    def _control(self) -> None:
        seen = self.registry.read()
        tails: dict[int, Tail] = {}
        for broker, process in self.processes.items():
            if process is not None and process.registered:
                tails[broker] = self.disks[broker].tail
        change = decide(seen, self.assignment, self.plan.min_insync, tails)
        if change is not None:
            delay = self.random.choice((1, 10, 10, 60, 700 if not self._healed else 20))
            self.agenda.after(delay, self._controller_writes, change, seen.controller_epoch)

    def _controller_writes(self, change: ChangeState, epoch: int) -> None:
        self.registry.write(NODE, change, epoch)

    # --- the network

    def send(
        self, source: Process, target: Process, act: Callable[..., object], *arguments: object
    ) -> None:
        """A message between processes. Each takes its own time, so later ones may be earlier."""
        if self._is_cut(source.id, target.id) or self.random.random() < self._loss:
            return
        delay = self._delay(source.id, target.id)
        self.agenda.after(delay, self.at_process, target, act, *arguments)

    def at_process(self, process: Process, act: Callable[..., object], *arguments: object) -> None:
        """Do it if the process runs, later if it is paused, never if it has ended."""
        if not process.alive:
            return
        if process.resumes_ms > self.agenda.now_ms:
            self.agenda.at(process.resumes_ms, self.at_process, process, act, *arguments)
            return
        act(*arguments)

    def later(
        self, process: Process, delay_ms: int, act: Callable[..., object], *arguments: object
    ) -> None:
        """A timer of a process."""
        self.agenda.after(delay_ms, self.at_process, process, act, *arguments)

    def registry_call(
        self,
        process: Process,
        call: Callable[[], Result],
        answered: Callable[[Result | None], object],
        *,
        may_be_late: bool = True,
    ) -> None:
        """A call to ZooKeeper: it may be lost, done late, or done and the answer lost. None: its
        outcome is unknown. It may be done after that, also when the process has ended; calls that
        must be done in their order (``may_be_late`` is false) are not, since a session keeps its
        order and ends before the next one."""
        waiting = [True]

        def answer(result: Result | None) -> None:
            if waiting[0]:
                waiting[0] = False
                self.at_process(process, answered, result)

        def arrives() -> None:
            if waiting[0] or (may_be_late and self.random.random() < 0.5):
                result = call()
                deaf = self._deaf.get(process.id, 0)
                if deaf:
                    self._deaf[process.id] = deaf - 1
                    self.note("%r does not hear what became of its call", process)
                elif not self._is_cut(NODE, process.id):
                    self.agenda.after(self._delay(NODE, process.id), answer, result)

        if not self._is_cut(process.id, NODE):
            self.agenda.after(self._delay(process.id, NODE), arrives)
        self.agenda.after(CALL_TIMEOUT_MS, answer, None)

    def running(self, broker: int) -> Process | None:
        """The broker's process, if it runs."""
        return self.processes.get(broker)

    def _is_cut(self, source: int, target: int) -> bool:
        return self._cut.get((source, target), 0) > self.agenda.now_ms

    def _delay(self, source: int, target: int) -> int:
        if self._slow.get((source, target), 0) > self.agenda.now_ms:
            return self.random.randrange(200, 3_000)
        if self._healed:
            return 2
        return self.random.choice((1, 1, 2, 3, 5, 20, 20, 150))

    # --- clients

    def answered(self, process: Process, value: int, code: int) -> None:
        """A client with acks=all is answered."""
        self.note("%r answers %d to record %d", process, code, value)
        if code == 0:
            self.check.answered(process, value)

    def _produce(self, event: Event) -> None:
        self._values += 1
        target = event.broker if event.other == 2 else self.registry.state.leader
        process = self.processes.get(target)
        acks = 1 if event.other == 1 else -1
        if process is not None:
            for _ in range(2):
                self._values += 1
                self.later(process, 2, process.produce, self._values, acks)

    # --- faults

    def _happens(self, event: Event) -> None:
        if event.kind == "produce":
            self._produce(event)
            return
        self.note("%s", event)
        until = self.agenda.now_ms + event.for_ms
        process = self.processes.get(event.broker)
        if event.kind == "cut":
            self._cut[event.broker, event.other] = until
        elif event.kind == "slow":
            self._slow[event.broker, event.other] = until
        elif event.kind == "deaf":
            self._deaf[event.broker] = 1 + event.for_ms // 2_000
        elif event.kind == "controller":
            self.registry.controller_epoch += 1
        elif event.kind == "leave":
            self.registry.leave(event.broker, leaving=True)
            self.agenda.at(until, self.registry.leave, event.broker, False)
        elif event.kind == "expire":
            self.registry.expire(event.broker)
        elif process is not None and event.kind == "pause":
            process.resumes_ms = until
        elif process is not None:
            self._stop(process, event.kind, until)

    def _stop(self, process: Process, kind: str, until: int) -> None:
        """The process ends and starts again later."""
        broker, disk = process.id, self.disks[process.id]
        process.alive = False
        self.processes[broker] = None
        if kind != "kill" and (self.plan.may_lose or self.check.may_lose(broker)):
            self.check.loses(broker)
            before = len(disk.log)
            if kind == "wipe":
                disk.wipe()
            else:
                disk.power_failure(self.random)
            self.note("broker %d had %d records, has %d", broker, before, len(disk.log))
        self.agenda.at(until, self._start, broker)

    def _start(self, broker: int) -> None:
        if self.processes[broker] is None:
            self._runs += 1
            process = Process(self, broker, self.disks[broker], self._runs)
            self.processes[broker] = process
            self.note("%r starts with %d records", process, len(process.disk.log))
            process.start()

    # --- history

    def note(self, text: str, *arguments: object) -> None:
        """A line of the history; it is made into text only if it is read."""
        frozen = tuple(repr(one) if isinstance(one, Process) else one for one in arguments)
        self.history.append((self.agenda.now_ms, text.replace("%r", "%s"), frozen))

    def told(self) -> list[str]:
        """The history as lines."""
        return [f"{time:6} {text % arguments}" for time, text, arguments in self.history]


def run(plan: Plan) -> World:
    """One run to its end. Raises Broken, with the plan and the history as a note."""
    world = World(plan)
    try:
        world.run()
    except Broken as broken:
        broken.add_note("\n".join([f"{plan}", *world.told()]))
        raise
    return world


def broken_by(plan: Plan) -> Broken | None:
    """What a run breaks, None if it breaks nothing."""
    try:
        run(plan)
    except Broken as broken:
        return broken
    return None


def shortest(plan: Plan) -> Plan:
    """A plan that fails, with the events only that it needs to break the same."""
    found = broken_by(plan)
    name = found.name if found else ""

    def fails(events: Sequence[Event]) -> bool:
        broken = broken_by(replace(plan, events=tuple(events)))
        return broken is not None and broken.name == name

    return replace(plan, events=tuple(shrunk(plan.events, fails)))
