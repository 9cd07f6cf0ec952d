"""The start of a simulated broker, by the steps of ``tallymark.replication.registration``: also
after a lost session, when it comes back in another one and under a new broker epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simulated_nodes import PARTITION, Author, Snapshot

from tallymark.replication.registration import GiveUp, Register, RememberBoot, Start, next_step

if TYPE_CHECKING:
    from simulated_broker import Process

PAUSE_MS: Final = 200


class Starting:
    """One attempt after another, each from the first step. What an earlier one still hears counts
    for nothing: ``_attempt`` has risen."""

    def __init__(self, process: Process, intact: bool) -> None:
        self._process = process
        self._world = process.world
        self._nodes = process.world.nodes
        self._intact = intact
        self._attempt = 0
        self._start = Start(process.id)

    def begin(self) -> None:
        """From the first step, in the process's session."""
        self._attempt += 1
        self._start = Start(self._process.id)
        attempt, broker, session = self._attempt, self._process.id, self._process.session

        def known(found: tuple[int, int | None] | None) -> None:
            if self._is_over(attempt):
                return
            epoch, owner = found or (-1, -1)
            if owner is None:
                self._raise(attempt, epoch)
            elif owner == session:  # the answer to the last step was lost
                self._world.network.read(
                    self._process, lambda seen: self._adopt(attempt, epoch, seen)
                )
            else:
                self._again()

        call = self._nodes.epoch_of
        self._world.network.call(self._process, lambda: call(broker), known)

    def _adopt(self, attempt: int, epoch: int, seen: Snapshot | None) -> None:
        if not self._is_over(attempt):
            if seen is None:
                self._again()
            else:
                self._process.is_registered(epoch, seen)

    def _raise(self, attempt: int, known: int) -> None:
        broker, call = self._process.id, self._nodes.raise_epoch

        def raised(epoch: int | None) -> None:
            if self._is_over(attempt):
                return
            if epoch is None:
                self._again()
            else:
                self._start = replace(self._start, epoch=epoch)
                self._read(attempt)

        self._world.network.call(self._process, lambda: call(broker, known), raised)

    def _read(self, attempt: int) -> None:
        self._world.network.read(self._process, lambda seen: self._step(attempt, seen))

    def _step(self, attempt: int, seen: Snapshot | None) -> None:
        if self._is_over(attempt):
            return
        if seen is None:
            self._again()
            return
        process, disk = self._process, self._process.disk
        mine = process.id in seen.topic.assignment.replicas
        views = {PARTITION: seen.view} if mine else {}
        step = next_step(self._start, views, disk.logs(self._intact))
        if isinstance(step, GiveUp):
            self._world.note("%r gives up: %s", process, step.changes[0].why)
            author = Author(process.id, broker_epoch=self._start.epoch)
            self._world.write(process, author, step.changes[0], lambda _: self._told(attempt))
        elif isinstance(step, RememberBoot):
            disk.remember_boot()
            self._intact = True
            self._start = replace(self._start, boot_remembered=True)
            self._told(attempt)
        elif isinstance(step, Register):
            self._register(attempt, step.epoch, seen)

    def _told(self, attempt: int) -> None:
        if not self._is_over(attempt):
            self._read(attempt)

    def _register(self, attempt: int, epoch: int, seen: Snapshot) -> None:
        broker, session = self._process.id, self._process.session
        call = self._nodes.register

        def registered(epoch: int | None) -> None:
            if self._is_over(attempt):
                return
            if epoch is None:
                self._again()
            else:
                self._process.is_registered(epoch, seen)

        self._world.network.call(self._process, lambda: call(broker, epoch, session), registered)

    def _again(self) -> None:
        self._attempt += 1
        self._world.network.later(self._process, PAUSE_MS, self._retry, self._attempt)

    def _retry(self, attempt: int) -> None:
        if not self._is_over(attempt):
            self.begin()

    def _is_over(self, attempt: int) -> bool:
        return attempt != self._attempt or self._process.registered
