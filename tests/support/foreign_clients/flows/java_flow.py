"""The Java client, a process of its own."""

from __future__ import annotations

import threading

from journal import Journal

from foreign_clients import java
from foreign_clients.flows.flow import METADATA_AGE_MS, PAUSE, SETTLE_SECONDS
from tallymark.processes.child_process import kill_process


class Java:
    """``version`` is that of kafka-clients."""

    def __init__(self, name: str, servers: str, topic: str, version: str) -> None:
        self.journal = Journal(name, topic)
        self._servers = servers
        self._version = version
        self._errors: list[str] = []
        self._has_ended = False
        self._listener = threading.Thread(target=self._listen, name=name, daemon=True)

    def start(self) -> None:
        journal, pause_ms = self.journal, int(PAUSE * 1000)
        self._process = java.failover(
            self._version, self._servers, journal.topic, journal.name, pause_ms, METADATA_AGE_MS
        )
        self._listener.start()

    def marks(self) -> tuple[int, ...]:
        assert not self._errors, self._errors
        assert self._has_ended or self._process.poll() is None, "the JVM has ended by itself"
        return len(self.journal.acked), len(self.journal.seen)

    def finish(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("enough\n")
            self._process.stdin.close()
            self._process.wait(2 * SETTLE_SECONDS)
            self._listener.join(SETTLE_SECONDS)
        finally:
            kill_process(self._process)
        assert not self._errors, self._errors
        assert self._has_ended, "the JVM has ended too early"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                what, _, rest = line.rstrip("\n").partition(" ")
                self._heard(what, rest)

    def _heard(self, what: str, rest: str) -> None:
        journal = self.journal
        first, _, last = rest.partition(" ")
        match what:
            case "sent":
                assert first == journal.next_value()
            case "acked":
                journal.settled(first, int(last))
            case "failed":
                journal.settled(first, None, last)
            case "assigned":
                journal.assigned()
            case "polled":
                places = (one.partition(":") for one in rest.split(" "))
                journal.polled((int(offset), value) for offset, _, value in places)
            case "committed":
                journal.committed(int(first))
            case "end":
                self._has_ended = True
            case _:
                self._errors.append(f"{what} {rest}")
