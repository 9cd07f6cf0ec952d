"""The process that compacts: ``python -m tallymark.log.compaction.worker``, one JSON value a line.

::

    on standard input                      on standard output
    {"do": "begin", "task": {}}            {"paused": {}}    its time slice is over
    {"do": "next", "directory": "..."}     {"cleaned": {}}   a new segment is written; when it is
                                                             in its place, "next" comes
    {"do": "next", "directory": "..."}     {"summary": {}}   the end
                                           {"error": "...", "damaged": false}
    {"do": "drop", "directory": "..."}     {"paused": {}}    it is given up

Compactions of several logs may be under way, each identified by its directory and each with a map
of its own. One of them works at a time, for a time slice of a second. The process runs at the
lowest priority and ends when its input ends. The broker or this process may be killed at any
moment: what remains are ``.cleaned`` files, which are never part of a log.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from tallymark.errors import CorruptRecordError
from tallymark.log.compaction.compaction import Compaction
from tallymark.log.compaction.task import Cleaned, CompactionTask, Paused
from tallymark.log.compaction.throttle import TimeSlice
from tallymark.log.disk.files import Files, OsFiles

_NICEST: Final = 19
TURN_S: Final = 1.0
"""A compaction works so long before it lets another one work, or a little longer: to the end of the
batch at hand."""


class _Run(NamedTuple):
    compaction: Compaction
    steps: Generator[Cleaned | Paused, None, None]


class Steps:
    """Executes one order after the other."""

    def __init__(
        self, files: Files, turn_s: float = TURN_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files
        self._time_slice = TimeSlice(turn_s, clock)
        self._runs: dict[str, _Run] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order. Never raises: a failure is an answer, too."""
        directory = ""
        self._time_slice.begin()
        try:
            if order["do"] == "begin":
                task = CompactionTask.from_json(order["task"])
                directory = task.directory
                self._drop(directory)
                run = Compaction(self._files, task, time_slice=self._time_slice)
                self._runs[directory] = _Run(run, iter(run))
            else:
                directory = order["directory"]
            if order["do"] == "drop":
                self._drop(directory)
                return {"paused": {}}
            assert directory in self._runs, "next without begin"
            return self._step(directory)
        except CorruptRecordError as error:
            self._drop(directory)
            return {"error": str(error), "damaged": True}
        except Exception as error:  # whatever it is: the broker gets it and continues
            self._drop(directory)
            return {"error": f"{type(error).__name__}: {error}", "damaged": False}

    def _step(self, directory: str) -> dict[str, Any]:
        run = self._runs[directory]
        for step in run.steps:
            return {"paused": {}} if isinstance(step, Paused) else {"cleaned": asdict(step)}
        del self._runs[directory]
        return {"summary": asdict(run.compaction.summary())}

    def _drop(self, directory: str) -> None:
        run = self._runs.pop(directory, None)
        if run is not None:
            run.steps.close()  # what it has written so far is removed


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's, which ends us
    os.nice(_NICEST)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    steps = Steps(OsFiles())
    while True:
        answer = steps.answer(json.loads(lines.get()))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _listen(lines: queue.SimpleQueue[str]) -> None:
    """In a thread, so that the end of the input is noticed in the middle of a task."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
