"""The term of a simulated controller, with the real planner: as ``coordination.replicas.term``,
round after round, and as long as no fence has refused it. Two may think that they are it.

A round reads the brokers; the partition it reads only if it was told of a change, or if the last
change was refused or is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simulated_nodes import PARTITION, Author, Snapshot, Written

from tallymark.coordination.cluster.suspicion import Suspicions
from tallymark.errors import KafkaError
from tallymark.replication import changes
from tallymark.replication.balance import preferred_leaders
from tallymark.replication.model import Change, ChangeState, PartitionView, Picture, Tail
from tallymark.replication.planner import plan

if TYPE_CHECKING:
    from simulated_broker import Process

PAUSE_MS: Final = 200
SUSPECTS_MS: Final = 1_000
TAILS_MS: Final = 400
Wanted = Callable[[Picture], Change | None]


class Term:
    """``view`` is what the controller takes the partition for; None before it has read it."""

    def __init__(self, process: Process, epoch: int) -> None:
        self.process = process
        self.epoch = epoch
        self.view: PartitionView | None = None
        self.is_over = False
        self._world = process.world
        self._told = True
        self._doubted = True
        self._busy = False
        self._again = False
        self._wanted: list[Wanted] = []
        self._tails: dict[int, Tail] = {}
        self._asked = 0
        self._suspicions = Suspicions()
        self._tries_again = False

    def told(self) -> None:
        """A change of the partition was told."""
        self._told = True
        self.wake()

    def want(self, wanted: Wanted) -> None:
        """An operator asks for a change."""
        self._wanted.append(wanted)
        self.wake()

    def wake(self) -> None:
        """Something may have to be done."""
        if self._busy:
            self._again = True
        elif not self.is_over:
            self._round()

    def _round(self) -> None:
        self._busy, self._again = True, False
        told, self._told = self._told, False
        self._world.network.read(self.process, lambda seen: self._seen(seen, told))

    def _seen(self, seen: Snapshot | None, told: bool) -> None:
        if seen is None:
            self._told |= told
            self._rest()
            return
        if told or self._doubted or self.view is None:
            self.view = seen.view
            self._doubted = False
        picture = seen.picture(self.view, self.epoch)
        standing = self._suspicions.standing(picture, self._world.agenda.now_ms)
        picture = replace(picture, suspects=standing)
        if standing and not self._tries_again:
            self._tries_again = True
            self._world.network.later(self.process, SUSPECTS_MS, self._try_again)
        wanted = plan(picture)
        if wanted.ask:
            self._ask(picture, wanted.ask[PARTITION])
        else:
            change = self._operators(picture) or self._first(wanted.changes, picture)
            self._write(change, picture)

    def _try_again(self) -> None:
        self._tries_again = False
        self.wake()

    def _first(self, planned: tuple[Change, ...], picture: Picture) -> Change | None:
        if not planned and self._world.random.random() < 0.1:
            planned = preferred_leaders(picture)
        return planned[0] if planned else None

    def _operators(self, picture: Picture) -> Change | None:
        while self._wanted:
            try:
                change = self._wanted.pop(0)(picture)
            except KafkaError as refused:
                self._world.note("%r refuses: %s", self.process, str(refused))
                continue
            if change is not None:
                return change
        return None

    # --- tails

    def _ask(self, picture: Picture, brokers: tuple[int, ...]) -> None:
        self._tails = {}
        self._asked += 1
        epoch = picture.partitions[PARTITION].state.leader_epoch
        for broker in brokers:
            other = self._world.running(broker)
            self._world.network.send(
                self.process, other, "tail_asked", self.process, self._asked, epoch
            )
        self._world.network.later(self.process, TAILS_MS, self._have_tails, picture)

    def tail_told(self, asked: int, broker: int, tail: Tail) -> None:
        if asked == self._asked:
            self._tails[broker] = tail

    def _have_tails(self, picture: Picture) -> None:
        self._asked += 1
        planned = plan(picture, tails={PARTITION: self._tails}).changes
        self._write(self._first(planned, picture), picture)

    # --- writes

    def _write(self, change: Change | None, picture: Picture) -> None:
        if self.is_over or change is None:
            self._rest()
            return
        self._world.note("%r controls: %s", self.process, change.why)
        author = Author(self.process.id, controller_epoch=self.epoch)
        self._world.write(
            self.process, author, change, lambda told: self._written(change, picture, told)
        )

    def _written(self, change: Change, picture: Picture, told: Written | None) -> None:
        if told is not None and told.is_over:
            self._world.note("%r is the controller no more", self.process)
            self.is_over = True
        elif told is not None and told.done:
            assert self.view is not None
            if isinstance(change, ChangeState):
                self._suspicions.written([change], picture)
            self.view = changes.after(change, self.view)
            self._again = True
        else:
            self.doubt()
        self._rest()

    def doubt(self) -> None:
        """A change was refused, or its outcome is unknown: what is known may be old."""
        self._doubted = True

    def _rest(self) -> None:
        self._busy = False
        if not self.is_over and (self._again or self._doubted or self._told):
            self._world.network.later(self.process, 0 if self._again else PAUSE_MS, self.wake)
