"""The process that compacts: ``python -m tallymark.log.compaction_worker``, one JSON value a line.

::

    on standard input               on standard output
    {"do": "begin", "task": {}}     {"cleaned": {}}   a new segment is written; when it is in its
    {"do": "next"}                                    place, "next" comes
    {"do": "next"}                  {"summary": {}}   the end
                                    {"error": "...", "damaged": false}

A task that is begun ends the one before. The process lives at the lowest priority and ends when its
input does: whoever started it may be killed at any moment, and so may this process; what it leaves
are ``.cleaned`` files, which nobody takes for a part of a log.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from tallymark.errors import CorruptRecordError
from tallymark.log.compaction import Compaction
from tallymark.log.compaction_task import Cleaned, CompactionTask
from tallymark.log.files import Files, OsFiles

_NICEST: Final = 19


class Steps:
    """What the process does with one line after the other."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._run: Compaction | None = None
        self._segments: Iterator[Cleaned] = iter(())

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order. Never raises: a failure is an answer, too."""
        try:
            if order["do"] == "begin":
                self._run = Compaction(self._files, CompactionTask.from_json(order["task"]))
                self._segments = iter(self._run)
            assert self._run is not None, "next without begin"
            for cleaned in self._segments:
                return {"cleaned": asdict(cleaned)}
            return {"summary": asdict(self._run.summary())}
        except CorruptRecordError as error:
            return {"error": str(error), "damaged": True}
        except Exception as error:  # whatever it is, the broker is told and goes on
            return {"error": f"{type(error).__name__}: {error}", "damaged": False}


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
