"""kcat: one process that sends the lines it is given, and one that prints what its group reads."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path

from journal import Journal

from foreign_clients.flows.flow import PAUSE, SESSION_MS, SETTLE_SECONDS
from tallymark.processes.child_process import kill_process


class Kcat:
    """It ends by itself when no broker can be reached, of three, too.
    It tells only at its end, by its exit code, that all was acknowledged, and not where. Its
    reader stores positions by itself, and says on another channel when it got its partition."""

    def __init__(self, name: str, servers: str, topic: str, folder: Path) -> None:
        self.journal = Journal(name, topic)
        self._printed, self._said = folder / f"{name}.printed", folder / f"{name}.said"
        self._complaints = folder / f"{name}.complaints"
        self._common = ("kcat", "-b", servers, "-X", "log_level=0")
        self._enough = threading.Event()
        self._values: list[str] = []
        self._writer = threading.Thread(target=self._write, name=name, daemon=True)

    def start(self) -> None:
        topic = self.journal.topic
        send = ("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-X", "acks=all")
        with self._complaints.open("wb") as complaints:
            self._sender = subprocess.Popen(
                [*self._common, *send], stdin=subprocess.PIPE, stderr=complaints
            )
        settings = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
        }
        options = [word for pair in settings.items() for word in ("-X", "{}={}".format(*pair))]
        read = ("-u", "-f", "%o %s\n", *options, "-G", f"readers-of-{topic}", topic)
        with self._printed.open("wb") as printed, self._said.open("wb") as said:
            self._receiver = subprocess.Popen([*self._common, *read], stdout=printed, stderr=said)
        self._writer.start()

    def marks(self) -> tuple[int, ...]:
        for process in (self._sender, self._receiver):
            assert process.poll() is None, self._complaints.read_text() + self._said.read_text()
        return (len(self._lines()),)

    def finish(self) -> None:
        try:
            self._enough.set()
            self._writer.join(SETTLE_SECONDS)
            code = self._sender.wait(SETTLE_SECONDS)
            complaints = self._complaints.read_text()
            failed = complaints if code or "Delivery failed" in complaints else None
            for value in self._values:
                self.journal.settled(value, None, failed)
            self._wait_until_read()
            self._receiver.terminate()
            self._receiver.wait(SETTLE_SECONDS)
            self._note_lines()
        finally:
            kill_process(self._sender)
            kill_process(self._receiver)

    def _write(self) -> None:
        assert self._sender.stdin is not None
        # A sender that has ended by itself is found by marks() and finish().
        with contextlib.suppress(BrokenPipeError), self._sender.stdin as lines:
            while not self._enough.wait(PAUSE):
                self._values.append(self.journal.next_value())
                lines.write(self._values[-1].encode() + b"\n")
                lines.flush()

    def _lines(self) -> list[tuple[int, str]]:
        """What was printed so far, without a line that is being written."""
        whole = self._printed.read_text().rpartition("\n")[0]
        return [(int(line.split()[0]), line.split()[1]) for line in whole.splitlines()]

    def _wait_until_read(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while unread := self.journal.acked - {value for _, value in self._lines()}:
            assert time.monotonic() < deadline, f"never read: {sorted(unread)[:5]}"
            time.sleep(0.1)

    def _note_lines(self) -> None:
        """It may have gone back as often as it got its partition again, and not more often."""
        again, last = self._said.read_text().count("assigned:") - 1, -1
        for offset, value in self._lines():
            if offset <= last and again > 0:
                again -= 1
                self.journal.assigned()
            self.journal.polled([(offset, value)])
            last = offset
