"""A partition on simulated brokers: virtual time, a network and a ZooKeeper that fail, crashes,
power failures, moves of replicas. All of it follows from a plan.

:func:`run` runs one plan to its end and raises :class:`Broken` with the history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from checks import anomalies
from simulated_agenda import Agenda
from simulated_broker import Process
from simulated_clients import CONSUMERS, Clients
from simulated_disk import Disk
from simulated_invariants import Broken, Invariants
from simulated_network import ZOOKEEPER, Network
from simulated_nodes import PARTITION, Author, Nodes, Topic, Written
from simulated_plan import CHAOS_MS, Event, Plan
from simulated_shrinking import shrunk

from tallymark.replication import reassignment
from tallymark.replication.model import (
    Assignment,
    Change,
    ChangeAssignment,
    PartitionState,
    Picture,
    least_isr,
)

SESSION_MS: Final = 1_500
HEALED_MS: Final = 60_000
"""How long a healed cluster may take until all is whole."""


class World:
    """One run. ``history`` is what happened, for people."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.agenda = Agenda()
        topic = Topic(0, Assignment(plan.replicas), plan.min_insync, plan.unclean_allowed)
        self.nodes = Nodes(topic, PartitionState(1, 0, plan.replicas, version=0))
        self.network = Network(self.agenda, self.random, self.nodes, self.note)
        self.disks = {one: Disk(plan.flushes_first) for one in plan.brokers}
        for one in plan.replicas:
            self.disks[one].exists = True
        self.processes: dict[int, Process | None] = dict.fromkeys(plan.brokers)
        self.clients = Clients(self)
        self.check = Invariants(self)
        self.history: list[tuple[int, str, tuple[object, ...]]] = []
        self.session_patience_ms = self.random.choice((1_000, 1_400, 6_000))
        """After this time without ZooKeeper a broker takes its session for dead; the greatest is a
        broker that leads on though it is not registered any more."""
        self._watches_lost = self.random.choice((0.0, 0.1, 0.5))
        self._heard: dict[int, int] = {}
        self._under_way: list[Change] = []
        self._runs = 0
        self._healed = False
        self._known = (0, 0)

    # --- a run

    def run(self) -> None:
        """Chaos by the plan, then everything is healed and must become whole."""
        for broker in self.plan.brokers:
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
        self.check_history()

    def check_history(self) -> None:
        """At the end every consumer reads everything; then Jepsen's checks."""
        leader = self.processes[self.nodes.state.leader]
        assert leader is not None
        self.clients.poll_all(leader)
        for anomaly in anomalies(self.clients.operations):
            raise Broken(anomaly.name, anomaly.text)

    def _until(self, time_ms: int, enough: Callable[[], bool]) -> bool:
        agenda, nodes = self.agenda, self.nodes
        steps = 0
        while agenda.now_ms < time_ms:
            agenda.step()
            if nodes.writes:
                for write in nodes.writes:
                    after = write.after
                    self.note(
                        "the nodes: %s, %s by %s", after.state, after.assignment, write.author
                    )
                    self.check.wrote(write)
                nodes.writes.clear()
            if self._known != (nodes.told, nodes.revision):
                self._tell_all(told=self._known[0] != nodes.told)
            steps += 1
            if steps % 64 == 0 and enough():
                return True
        return enough()

    def _heal(self) -> None:
        self.note("all is healed")
        self._healed = True
        self.network.heal()
        self.nodes.leaving.clear()
        self.nodes.refusing.clear()
        self.nodes.revision += 1
        for broker, process in self.processes.items():
            if process is None:
                self._start(broker)

    def _tick_all(self) -> None:
        for broker, process in self.processes.items():
            if process is not None:
                self._beat(broker, process)
                self.network.at_process(process, process.tick)
                if self._healed or self.random.random() < 0.2:
                    self.read(process)
                self._controls(process)
        self._expire()
        self._poll()
        self.agenda.after(self.random.randrange(200, 400), self._tick_all)

    def _poll(self) -> None:
        for consumer in CONSUMERS:
            process = self.processes[self.random.choice(self.plan.brokers)]
            if process is not None:
                self.network.later(process, 2, self.clients.poll, consumer, process)

    # --- ZooKeeper

    def _beat(self, broker: int, process: Process) -> None:
        hears = not self.network.is_cut(broker, ZOOKEEPER)
        hears = hears and not self.network.is_cut(ZOOKEEPER, broker)
        if hears and process.resumes_ms <= self.agenda.now_ms:
            process.session_ms = self._heard[process.session] = self.agenda.now_ms

    def _expire(self) -> None:
        """Sessions that were not heard of for too long end."""
        for session in sorted(self.nodes.sessions):
            heard = self._heard.setdefault(session, self.agenda.now_ms)
            if self.agenda.now_ms - heard > SESSION_MS:
                self.note("session %d is over", session)
                self.nodes.close(session)

    def _controls(self, process: Process) -> None:
        """Whoever sees no controller wants to be it, also if it is and has not heard so."""
        nodes, term = self.nodes, process.term
        knows = term is not None and term.epoch == nodes.controller_epoch
        mine = nodes.controller == process.session and not knows
        if (nodes.controller == 0 or mine) and process.registered:
            session, elect = process.session, self.nodes.elect
            self.network.call(process, lambda: elect(session), process.elected)
        elif nodes.is_gone(nodes.controller) and process.registered:
            epoch = nodes.controller_epoch
            self.network.call(process, lambda: nodes.depose(epoch), lambda _: None)

    def _tell_all(self, told: bool) -> None:
        """Watches fire; some come late, some never."""
        self._known = (self.nodes.told, self.nodes.revision)
        for process in self.processes.values():
            if process is None:
                continue
            if self._healed or self.random.random() >= self._watches_lost:
                self.agenda.after(self.random.choice((1, 2, 40)), self.read, process)
            if process.term is not None:
                act = process.term.told if told else process.term.wake
                self.network.later(process, self.random.choice((1, 5, 60, 700)), act)

    def tell(self) -> None:
        """A new ISR is told."""
        self.nodes.told += 1

    def read(self, process: Process) -> None:
        """A watch fired or a poll is due: the nodes are read, and what they held arrives later."""
        self.network.read(process, process.told)

    def write(
        self,
        process: Process,
        author: Author,
        change: Change,
        answered: Callable[[Written | None], object],
    ) -> None:
        """A change on its way to the nodes."""
        under_way, write = self._under_way, self.nodes.write

        def arrives() -> Written:
            dropped()
            return write(author, change)

        def dropped() -> None:
            under_way[:] = [one for one in under_way if one is not change]

        under_way.append(change)
        self.network.call(process, arrives, answered, dropped=dropped)

    def least_possible_isr(self) -> int:
        """The ISR may become as small as this by what was decided, or may be by what is known."""
        view, version = self.nodes.view, self.nodes.state.version
        due = [one for one in self._under_way if one.expected >= version]
        assignments = [view.assignment]
        assignments += [one.assignment for one in due if isinstance(one, ChangeAssignment)]
        settings = [view.min_insync]
        for process in self.processes.values():
            if process is not None:
                if process.topic.version >= 0:
                    settings.append(process.topic.min_insync)
                if process.term is not None and process.term.view is not None:
                    settings.append(process.term.view.min_insync)
        sizes = [len(one.target) for one in assignments] + [len(view.assignment.original)]
        isrs = [view.state.isr, *(one.state.isr for one in due if one.state is not None)]
        least = min(least_isr(one, size) for one in settings for size in sizes)
        return min(least, *(len(one) for one in isrs), len(view.state.isr))

    def running(self, broker: int) -> Process | None:
        """The broker's process, if it runs."""
        return self.processes.get(broker)

    def runs_as_registered(self, broker: int) -> bool:
        """The process that registered last runs, though its session may have ended since."""
        process = self.processes.get(broker)
        return process is not None and process.broker_epoch == self.nodes.epochs.get(broker)

    # --- faults

    def _happens(self, event: Event) -> None:
        kind, broker = event.kind, event.broker
        process = self.processes.get(broker)
        until = self.agenda.now_ms + event.for_ms
        if kind == "produce":
            target = broker if event.other == 2 else self.nodes.state.leader
            process = self.processes.get(target)
            if process is not None:
                self.clients.send(process, 1 if event.other == 1 else -1)
            return
        self.note("%s", event)
        if kind in ("cut", "slow"):
            act = self.network.cut if kind == "cut" else self.network.slow
            act((broker, event.other), until)
        elif kind == "deaf":
            self.network.deafen(broker, 1 + event.for_ms // 2_000)
        elif kind == "rot":
            self._rots(broker or self.nodes.state.leader)
        elif kind in ("reassign", "cancel", "configure"):
            self._operate(event)
        elif kind in ("leave", "suspect", "depose", "expire"):
            self._at_zookeeper(kind, broker, until)
        elif process is not None and kind == "pause":
            process.resumes_ms = until
        elif process is not None:
            self._stop(process, kind, until, event.other if kind != "stop" else 0)

    def _at_zookeeper(self, kind: str, broker: int, until: int) -> None:
        nodes = self.nodes
        if kind == "leave" and broker in nodes.registered:
            nodes.leaving[broker] = nodes.registered[broker][0]
            self.agenda.at(until, self._stays, broker)
        elif kind == "suspect":
            nodes.refusing.add(broker)
            self._are_refused(broker)
            self.agenda.at(until, self._stays, broker)
        elif kind == "depose":
            nodes.controller = 0
        elif kind == "expire" and broker in nodes.registered:
            nodes.close(nodes.registered[broker][1])
        nodes.revision += 1

    def _rots(self, broker: int) -> None:
        """One of the last records, mostly: others may lack it still."""
        disk = self.disks.get(broker)
        if disk is None or not disk.log or not self.check.may_rot(broker):
            return
        last = len(disk.log) - 1
        offset = self.random.choice((last, last, max(0, last - 3), self.random.randint(0, last)))
        disk.rotten.add(offset)
        self.check.rots(broker, offset)
        self.note("record %d of broker %d rots", offset, broker)

    def flips(self) -> bool:
        """Whether this answer of a leader is changed on its way."""
        if not self.plan.flips or self._healed:
            return False
        return self.random.random() < self.plan.flips

    def _stays(self, broker: int) -> None:
        self.nodes.leaving.pop(broker, None)
        if self.processes[broker] is not None:
            self.nodes.refusing.discard(broker)
        self.nodes.revision += 1

    def _are_refused(self, broker: int) -> None:
        """The others try a connection to it, most of them; some report it late."""
        for process in self.processes.values():
            if process is not None and self.random.random() < 0.7:
                pause = self.random.choice((1, 2, 40, 900))
                self.network.later(process, pause, process.is_refused, broker)

    def _operate(self, event: Event) -> None:
        if event.kind == "configure":
            self.nodes.configure(event.other, self.plan.unclean_allowed)
            self.check.configured(event.other)
            return
        for process in self.processes.values():
            if process is not None and process.term is not None:
                process.term.want(partial(_moved, event))

    def _stop(self, process: Process, kind: str, until: int, pause: int) -> None:
        """The process ends and starts again later; that start ends after ``pause`` ms, if > 0."""
        broker, disk = process.id, self.disks[process.id]
        self._end(process, in_order=kind == "stop", refuses=kind in ("stop", "kill"))
        before = len(disk.log)
        if kind in ("power", "wipe"):
            loses = kind == "wipe" or not self.plan.flushes_first
            if loses and not (self.plan.may_lose or self.check.may_lose(broker)):
                return self.agenda.at(until, self._start, broker, pause)
            if loses:
                self.check.loses(broker)
            if kind == "wipe":
                disk.wipe()
            else:
                disk.power_failure(self.random)
            self.note("broker %d had %d records, has %d", broker, before, len(disk.log))
        return self.agenda.at(until, self._start, broker, pause)

    def _end(self, process: Process, *, in_order: bool, refuses: bool = True) -> None:
        """``refuses``: its machine lives, and tells others that no process listens."""
        process.alive = False
        self.processes[process.id] = None
        self.check.ended(process.id)
        if refuses:
            self.nodes.refusing.add(process.id)
            self._are_refused(process.id)
        if in_order:
            process.disk.stopped()
            self.nodes.close(process.session)

    def _start(self, broker: int, pause: int = 0) -> None:
        if self.processes[broker] is None:
            self._runs += 1
            process = Process(self, broker, self.disks[broker], self._runs)
            self.processes[broker] = process
            self.nodes.refusing.discard(broker)
            self.check.started(broker)
            self.note("%r starts with %d records", process, len(process.disk.log))
            process.start()
            if pause and not self._healed:
                self.agenda.after(pause, self._interrupt, process)

    def _interrupt(self, process: Process) -> None:
        if process.alive and not self._healed:
            self.note("%r is stopped in order", process)
            self._end(process, in_order=True)
            self.agenda.after(100, self._start, process.id)

    # --- history

    def note(self, text: str, *arguments: object) -> None:
        """A line of the history; it is made into text only if it is read."""
        frozen = tuple(repr(one) if isinstance(one, Process) else one for one in arguments)
        self.history.append((self.agenda.now_ms, text.replace("%r", "%s"), frozen))

    def told(self) -> list[str]:
        """The history as lines."""
        return [f"{time:6} {text % arguments}" for time, text, arguments in self.history]


def _moved(event: Event, picture: Picture) -> Change | None:
    """What an operator asks of the controller. KafkaError: refused."""
    if event.kind == "cancel":
        return reassignment.cancel(picture, PARTITION)
    return reassignment.start(picture, PARTITION, event.target)


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
