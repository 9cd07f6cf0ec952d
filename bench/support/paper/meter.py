"""What a run of a client measures, and how it and the bench take turns: see :func:`run_client`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

Job = dict[str, Any]

PARTS: Final = 20
"""A run notes when each twentieth of its messages was there."""
PREFETCH: Final = 1000
"""Messages that a pull, or a consumer's window, holds (the paper: 1,000 or about 200 KB)."""
SURPLUS_SECONDS: Final = 0.3
"""After the last message no other one may arrive for so long."""


class Meter:
    """Counts messages and their bytes. A producer calls :meth:`end` when all are accepted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.messages = 0
        self.bytes = 0
        self.marks: list[float] = []
        self.seconds = self.cpu = 0.0
        self._step = max(1, count // PARTS)
        self._next = self._step

    def parts(self) -> Iterator[int]:
        """The messages in parts that are small enough for the notes of time."""
        left = self.count
        while left:
            part = min(left, self._step)
            yield part
            left -= part

    def begin(self) -> None:
        """Begin to measure."""
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def add(self, messages: int, size: int) -> None:
        """``messages`` more were sent or read, ``size`` bytes together."""
        self.messages += messages
        self.bytes += size
        if self.messages >= self._next:
            self.mark()
        if self.messages >= self.count and not self.seconds:
            self.end()

    def mark(self) -> None:
        """Note the time for each twentieth that was reached."""
        now = time.perf_counter() - self._began
        while self._next <= min(self.messages, self.count):
            self.marks.append(now)
            self._next += self._step

    def end(self) -> None:
        """The work is done, unless :meth:`end` is called again."""
        self.seconds = time.perf_counter() - self._began
        self.cpu = time.process_time() - self._cpu

    @property
    def done(self) -> bool:
        """Whether all messages were counted."""
        return self.messages >= self.count

    def result(self) -> dict[str, Any]:
        """The measures, as the Java clients print them, too."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "client_cpu_seconds": self.cpu,
            "marks": self.marks,
        }


def run_client(clients: dict[tuple[str, str], Any]) -> None:
    """The main function of a client's process: print ``ready``, wait for a line (the bench reads
    the broker's processor time meanwhile), do the job in ``argv``, print the measures."""
    job: Job = json.loads(sys.argv[1])
    meter = Meter(job["count"])
    run = clients[job["product"], job["job"]]
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit(1)
    try:
        run(job, meter)
    except ModuleNotFoundError as error:
        sys.exit(f"the Python package {error.name} is not installed; make paper installs it")
    print(json.dumps(meter.result()), flush=True)
