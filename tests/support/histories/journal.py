"""What one real client, which sends to a partition and reads it in a group, did and saw."""

from __future__ import annotations

from collections.abc import Iterable

from operations import Commit, Ended, Operation, Poll, Send


class Journal:
    """Of the client ``name`` and its topic's partition 0. Each thread of the client writes what is
    its own: the sender sends and settles, the reader polls and commits."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self.topic = topic
        self.operations: list[Operation] = []
        """In the order of their ends; what is under way is not among them."""
        self.sent = 0
        self.acked: set[str] = set()
        self.seen: set[str] = set()
        self.failed: list[str] = []
        """Sends that did not end well, and why."""
        self._is_assigned = True

    def next_value(self) -> str:
        """A value that was never sent."""
        self.sent += 1
        return f"{self.name}:{self.sent - 1}"

    def settled(self, value: str, offset: int | None, error: object = None) -> None:
        """The end of a send. ``error``: whether the record is in the log is not known."""
        ended = Ended.OK if error is None else Ended.IN_DOUBT
        send = Send(self.topic, value, offset)
        self.operations.append(Operation(f"{self.name} sends", ended, (send,)))
        if error is None:
            self.acked.add(value)
        else:
            self.failed.append(f"{value}: {error}")

    def assigned(self) -> None:
        """The reader got its partition, perhaps again: it goes on where the group stands."""
        self._is_assigned = True

    def polled(self, records: Iterable[tuple[int, str]]) -> None:
        """The offsets and values that one poll gave."""
        steps = tuple(Poll(self.topic, offset, value) for offset, value in records)
        if steps:
            reads = f"{self.name} reads"
            self.operations.append(Operation(reads, Ended.OK, steps, self._is_assigned))
            self._is_assigned = False
            self.seen.update(step.value for step in steps)

    def committed(self, offset: int) -> None:
        """The coordinator has taken this position of the group."""
        commit = Commit(self.topic, offset)
        self.operations.append(Operation(f"{self.name} reads", Ended.OK, (commit,)))

    @property
    def unread(self) -> set[str]:
        """What was acknowledged and not read yet."""
        return self.acked - self.seen
