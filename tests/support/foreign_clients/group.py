"""The story of a group: one member, then two, then one again. Every message is read once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from foreign_clients.rows import SECONDS

PARTITIONS: Final = 4
EACH_TIME: Final = 40


class Member(Protocol):
    """A consumer in a group that reads one topic of four partitions."""

    def poll(self) -> list[bytes]:
        """Values that are there, after a short while."""

    def share(self) -> int:
        """How many partitions are its own now."""

    def commit(self) -> None:
        """Store how far it has read."""

    def close(self) -> None:
        """Leave. Idempotent."""


@dataclass(slots=True)
class Story:
    """What happened; ``run`` makes it happen."""

    join: Callable[[], Member]
    """A new member."""

    send: Callable[[int, bytes], object]
    """Gives a value to a partition."""

    flush: Callable[[], object]
    """Ends when the broker has what was sent."""

    shares: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    sent: list[bytes] = field(default_factory=list[bytes])
    seen: list[bytes] = field(default_factory=list[bytes])

    def run(self) -> None:
        """From the first member to the last that leaves."""
        first = self.join()
        try:
            self._produce()
            self._until(lambda: len(self.seen) >= len(self.sent), first)
            self._note(first)
            first.commit()
            second = self.join()
            try:
                self._until(lambda: first.share() == second.share() == 2, first, second)
                self._note(first, second)
                self._produce()
                self._until(lambda: len(self.seen) >= len(self.sent), first, second)
                first.commit()
                second.commit()
            finally:
                second.close()
            self._until(lambda: first.share() == PARTITIONS, first)
            self._note(first)
            self._produce()
            self._until(lambda: len(self.seen) >= len(self.sent), first)
            first.commit()
        finally:
            first.close()

    def check(self) -> None:
        """Everybody had a fair share, and everything was read once."""
        assert self.shares == [(4,), (2, 2), (4,)]
        assert len(self.sent) == 3 * EACH_TIME
        assert sorted(self.seen) == sorted(self.sent)

    def _produce(self) -> None:
        for n in range(EACH_TIME):
            value = b"%d" % len(self.sent)
            self.send(n % PARTITIONS, value)
            self.sent.append(value)
        self.flush()

    def _note(self, *members: Member) -> None:
        self.shares.append(tuple(member.share() for member in members))

    def _until(self, done: Callable[[], bool], *members: Member) -> None:
        deadline = time.monotonic() + SECONDS
        while not done():
            assert time.monotonic() < deadline, (self.shares, len(self.seen), len(self.sent))
            for member in members:
                self.seen += member.poll()
