"""The network of a simulated cluster: delays by the seed, so later messages may be earlier; losses,
one-way cuts, slow links; calls to ZooKeeper that are lost, done late, or done and not answered."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from simulated_agenda import Agenda
from simulated_nodes import Nodes, Snapshot

if TYPE_CHECKING:
    from simulated_broker import Process

ZOOKEEPER: Final = 0
"""Its end of a link; the others are brokers."""
CALL_TIMEOUT_MS: Final = 600
Result = TypeVar("Result")
Link = tuple[int, int]


class Network:
    """``loss`` is the part of messages between brokers that is lost."""

    def __init__(
        self, agenda: Agenda, chances: random.Random, nodes: Nodes, note: Callable[..., None]
    ) -> None:
        self._agenda = agenda
        self._random = chances
        self._nodes = nodes
        self._note = note
        self._loss = chances.choice((0.0, 0.0, 0.01, 0.1))
        self._cut: dict[Link, int] = {}
        self._slow: dict[Link, int] = {}
        self._deaf: dict[int, int] = {}
        self._healed = False

    # --- faults

    def cut(self, link: Link, until_ms: int) -> None:
        self._cut[link] = until_ms

    def slow(self, link: Link, until_ms: int) -> None:
        self._slow[link] = until_ms

    def deafen(self, broker: int, answers: int) -> None:
        """So many answers of ZooKeeper to it are lost."""
        self._deaf[broker] = answers

    def heal(self) -> None:
        self._healed = True
        self._loss = 0.0
        self._cut.clear()
        self._slow.clear()
        self._deaf.clear()

    def is_cut(self, source: int, target: int) -> bool:
        return self._cut.get((source, target), 0) > self._agenda.now_ms

    # --- processes

    def at_process(self, process: Process, act: Callable[..., object], *arguments: object) -> None:
        """Do it if the process runs, later if it is paused, never if it has ended."""
        if not process.alive:
            return
        if process.resumes_ms > self._agenda.now_ms:
            self._agenda.at(process.resumes_ms, self.at_process, process, act, *arguments)
            return
        act(*arguments)

    def later(
        self, process: Process, delay_ms: int, act: Callable[..., object], *arguments: object
    ) -> None:
        """A timer of a process."""
        self._agenda.after(delay_ms, self.at_process, process, act, *arguments)

    def send(self, source: Process, target: Process | None, act: str, *arguments: object) -> None:
        """A message: the method ``act`` of the other process."""
        if target is None or self.is_cut(source.id, target.id):
            return
        if self._random.random() < self._loss:
            return
        delay = self._delay(source.id, target.id)
        self._agenda.after(delay, self.at_process, target, getattr(target, act), *arguments)

    # --- ZooKeeper

    def call(
        self,
        process: Process,
        command: Callable[[], Result],
        answered: Callable[[Result | None], object],
        *,
        dropped: Callable[[], object] = lambda: None,
    ) -> None:
        """None: the outcome is unknown, and the command may be done after that, also when the
        process has ended, as long as its session lives. ``dropped``: it never will be."""
        session = process.session
        waiting = [True]

        def answer(result: Result | None) -> None:
            if waiting[0]:
                waiting[0] = False
                self.at_process(process, answered, result)

        def arrives() -> None:
            if session not in self._nodes.sessions:
                dropped()
                self._answer(process, process.session_over, session)
            elif waiting[0] or self._random.random() < 0.5:
                result = command()
                if self._deaf.get(process.id, 0):
                    self._deaf[process.id] -= 1
                    self._note("%r does not hear what became of its call", process)
                else:
                    self._answer(process, answer, result)
            else:
                dropped()

        if self.is_cut(process.id, ZOOKEEPER):
            dropped()
        else:
            self._agenda.after(self._delay(process.id, ZOOKEEPER), arrives)
        self._agenda.after(CALL_TIMEOUT_MS, answer, None)

    def read(self, process: Process, answered: Callable[[Snapshot | None], object]) -> None:
        """Read the topic, and a while later the rest."""
        session = process.session
        waiting = [True]

        def answer(found: Snapshot | None) -> None:
            if waiting[0]:
                waiting[0] = False
                self.at_process(process, answered, found)

        def reads() -> None:
            topic = self._nodes.topic
            self._agenda.after(self._random.choice((0, 0, 0, 0, 4, 50)), reads_on, topic)

        def reads_on(topic: object) -> None:
            if session in self._nodes.sessions:
                self._answer(process, answer, self._nodes.read(topic))  # type: ignore[arg-type]
            else:
                self._answer(process, process.session_over, session)

        if not self.is_cut(process.id, ZOOKEEPER):
            self._agenda.after(self._delay(process.id, ZOOKEEPER), reads)
        self._agenda.after(CALL_TIMEOUT_MS, answer, None)

    def _answer(self, process: Process, act: Callable[..., object], *arguments: object) -> None:
        if not self.is_cut(ZOOKEEPER, process.id):
            delay = self._delay(ZOOKEEPER, process.id)
            self._agenda.after(delay, self.at_process, process, act, *arguments)

    def _delay(self, source: int, target: int) -> int:
        if self._slow.get((source, target), 0) > self._agenda.now_ms:
            return self._random.randrange(200, 3_000)
        if self._healed:
            return 2
        return self._random.choice((1, 1, 2, 3, 5, 20, 20, 150))
