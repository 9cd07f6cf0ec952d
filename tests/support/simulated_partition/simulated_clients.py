"""Clients of a simulated partition, and what they did and saw as a history for Jepsen's checks.

Each record is sent once and has a value of its own. Consumers read from whoever leads, up to the
high watermark, and go on where they were. After an unclean election the history begins anew: what
was committed before it may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from operations import Ended, Operation, Poll, Send

if TYPE_CHECKING:
    from simulated_broker import Process
    from simulated_world import World

KEY: Final = "t-0"
CONSUMERS: Final = ("c1", "c2")
RECORDS_A_POLL: Final = 5


class Clients:
    """``operations`` is the history since the last unclean election."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._values = 0
        self._first = 1
        """Values before it are of the time before an unclean election."""
        self._positions: dict[str, int] = dict.fromkeys(CONSUMERS, 0)
        self._assigned: dict[str, bool] = dict.fromkeys(CONSUMERS, False)
        self.operations: list[Operation] = []

    def send(self, process: Process, acks: int) -> None:
        """Two records, one after the other."""
        for _ in range(2):
            self._values += 1
            self._world.network.later(process, 2, process.produce, self._values, acks)

    def acknowledged(self, value: int, offset: int) -> None:
        self._ends(value, Ended.OK, offset)

    def refused(self, value: int, code: int) -> None:
        """Before the append."""
        self._ends(value, Ended.FAILED)

    def in_doubt(self, value: int, code: int) -> None:
        """After the append: it may be committed all the same."""
        self._ends(value, Ended.IN_DOUBT)
        self._world.note("record %d is in doubt: %d", value, code)

    def poll(self, consumer: str, process: Process) -> None:
        """Read on, if this broker leads."""
        leader = process.leader
        if leader is None or leader.epoch < self._world.check.since_epoch:
            return
        position = self._positions[consumer]
        last = min(leader.high_watermark, position + RECORDS_A_POLL)
        if position < last:
            self._read(consumer, [str(value) for _, value in process.disk.log[position:last]])

    def poll_all(self, process: Process) -> None:
        """At the end every consumer reads everything."""
        for consumer in CONSUMERS:
            for _ in range(len(process.disk.log)):
                self.poll(consumer, process)

    def restart(self, offset: int) -> None:
        """An unclean election: what is committed from ``offset`` on is given up."""
        self.operations.clear()
        self._first = self._values + 1
        for consumer in CONSUMERS:
            self._positions[consumer] = min(self._positions[consumer], offset)
            self._assigned[consumer] = True

    def _read(self, consumer: str, values: Sequence[str]) -> None:
        position, assigned = self._positions[consumer], self._assigned[consumer]
        polls = [Poll(KEY, position + at, value) for at, value in enumerate(values)]
        self.operations.append(Operation(consumer, Ended.OK, polls, assigned))
        self._positions[consumer] = position + len(values)
        self._assigned[consumer] = False

    def _ends(self, value: int, ended: Ended, offset: int | None = None) -> None:
        if value >= self._first:
            sends = [Send(KEY, str(value), offset)]
            self.operations.append(Operation(f"p{value}", ended, sends))
