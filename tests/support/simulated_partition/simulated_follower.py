"""The follower's side of a simulated broker: asks its leader, does what the real machine says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulated_disk import Record
from simulated_nodes import PARTITION

from tallymark.replication.following import (
    Answer,
    Append,
    Ask,
    AskRange,
    CutTo,
    Following,
    SetAside,
    StartAt,
    Step,
)
from tallymark.replication.model import PartitionState

if TYPE_CHECKING:
    from simulated_broker import Process

FETCH_TIMEOUT_MS: Final = 300


class Follower:
    """One leader epoch."""

    def __init__(self, process: Process, state: PartitionState) -> None:
        self.process = process
        self._world = process.world
        self._disk = process.disk
        self._asked: Ask | None = None
        self._asked_ms = 0
        self.machine = Following(
            PARTITION, state.leader, state.leader_epoch, process.high_watermark
        )
        is_member = process.id in state.isr
        first = self.machine.begin(self._disk.view, is_member=is_member)
        if first is not None:
            if first.to < len(self._disk.log):
                self._world.note("%r cuts to %d: %s", process, first.to, first.why)
            self._disk.cut(first.to)
            self.machine.is_at(self._disk.view, -1)
            process.high_watermark = min(process.high_watermark, first.to)
            self._world.check.cut(process)
        self._world.check.follows(process, is_member)

    @property
    def _is_over(self) -> bool:
        return self.process.follower is not self

    def poll(self) -> None:
        """Ask the leader for more, unless an ask is under way or the partition is set aside."""
        process, now_ms = self.process, self.process.now_ms
        waits = self._asked is not None and now_ms < self._asked_ms + FETCH_TIMEOUT_MS
        if self._is_over or waits or not process.registered:
            return
        ask = self.machine.ask(self._disk.view, now_ms)
        if ask is None:
            return
        if self._disk.flushes_first:
            self._disk.flush()
        self._asked, self._asked_ms = ask, now_ms
        leader = self._world.running(self.machine.leader)
        epoch = process.broker_epoch
        self._world.network.send(process, leader, "fetch", process, self, ask, epoch)

    def fetched(self, ask: Ask, answer: Answer, records: list[Record], corrupt: bool) -> None:
        """An answer, perhaps to an ask of long ago; ``corrupt``: what comes after its records."""
        if ask == self._asked:
            self._asked = None
        if self._is_over:
            return
        step = self.machine.answered(ask, answer, self._disk.view, self.process.now_ms)
        if isinstance(step, Append):
            for record in records:
                self.process.append(record)
            if records or not corrupt:
                self._followed(step.high_watermark)
            if corrupt:
                end, now_ms = len(self._disk.log), self.process.now_ms
                self._do(ask, self.machine.corrupt(end, end, "it is rotten", now_ms))
        else:
            self._do(ask, step)
        pause = 3 if records else self._world.random.choice((40, 90))
        self._world.network.later(self.process, pause, self.poll)

    def range_told(self, ask: Ask, leader_end: int) -> None:
        if not self._is_over:
            now_ms = self.process.now_ms
            self._do(ask, self.machine.range_told(ask, 0, leader_end, self._disk.view, now_ms))

    def _do(self, ask: Ask, step: Step) -> None:
        process, world = self.process, self._world
        if isinstance(step, CutTo | StartAt):
            to = step.to if isinstance(step, CutTo) else step.offset
            world.note("%r cuts %d to %d: %s", process, len(self._disk.log), to, step.why)
            self._disk.cut(to)
            self._followed(-1)
            world.check.cut(process)
        elif isinstance(step, SetAside):
            world.note("%r is set aside until %d: %s", process, step.until_ms, step.why)
        elif isinstance(step, AskRange):
            leader = world.running(self.machine.leader)
            world.network.send(process, leader, "range_asked", process, self, ask)

    def _followed(self, told: int) -> None:
        self.machine.is_at(self._disk.view, told)
        if self.machine.high_watermark != self.process.high_watermark:
            self.process.moved(self.machine.leader_epoch, self.machine.high_watermark)
