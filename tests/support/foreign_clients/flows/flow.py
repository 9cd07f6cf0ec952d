"""One client that sends and reads until it is told to finish."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from journal import Journal

PAUSE: Final = 0.03
"""Seconds between two messages of a client."""
SETTLE_SECONDS: Final = 120
"""How long the end may take: what is under way is settled, and everything is read."""
SESSION_MS: Final = 10_000
METADATA_AGE_MS: Final = 1000
"""How soon other people's clients ask again which brokers are up. They know the last answer only,
and go back to the bootstrap servers not at all (Java before 4.0, kafka-python, aiokafka; KIP-899),
or late: those that asked while one broker was up alone would wait for it while it stands still."""


class Flow(Protocol):
    """It owns its journal until :meth:`finish` returns."""

    journal: Journal

    def start(self) -> None: ...

    def marks(self) -> tuple[int, ...]:
        """Counts that rise while it is at work."""
        ...

    def finish(self) -> None:
        """Send no more; return when all that was acknowledged is read and stored as read. Raises
        what went wrong."""
        ...


class ThreadedFlow:
    """One whose clients live in two threads of the test. A subclass sends and reads."""

    def __init__(self, name: str, servers: str, topic: str) -> None:
        self.journal = Journal(name, topic)
        self.servers = servers
        self.group = f"readers-of-{topic}"
        self.enough = threading.Event()
        """Nothing more is to be sent."""
        self._errors: list[BaseException] = []
        self._writer = self._thread(self.write)
        self._reader = self._thread(self.read)
        self._ends = float("inf")

    def write(self) -> None:
        """Send until :attr:`enough`, then settle what is under way."""
        raise NotImplementedError

    def read(self) -> None:
        """Read and store positions until :meth:`is_over`, then once more, and leave."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether the reader has read everything there is to read."""
        if self._writer.is_alive():
            return False
        if time.monotonic() > self._ends:
            raise AssertionError(f"never read: {sorted(self.journal.unread)[:5]}")
        return not self.journal.unread

    def start(self) -> None:
        self._writer.start()
        self._reader.start()

    def marks(self) -> tuple[int, ...]:
        if self._errors:
            raise self._errors[0]
        return len(self.journal.acked), len(self.journal.seen)

    def finish(self) -> None:
        self._ends = time.monotonic() + SETTLE_SECONDS
        self.enough.set()
        for thread in (self._writer, self._reader):
            thread.join(SETTLE_SECONDS + 30)
            assert not thread.is_alive(), f"{thread.name} hangs"
        if self._errors:
            raise self._errors[0]

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # raised in finish() and marks()
                self._errors.append(error)

        name = f"{self.journal.name}-{work.__name__}"
        return threading.Thread(target=run, name=name, daemon=True)
