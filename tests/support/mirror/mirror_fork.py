"""``tallymark`` commands as processes that do not have to import everything first.

A fork server has done that once for all of them, so on a busy machine a command is there at once
instead of after many seconds. It is a process like any other: it may be killed at any moment.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tallymark.cli.main", "tallymark.cli.servers.mirror", __name__])


class Command:
    """``tallymark`` with these words, its output behind what ``log`` holds. Used like a Popen."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self._process = _context.Process(target=_run, args=(list(words), str(log)))
        self._process.start()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def send_signal(self, number: signal.Signals) -> None:
        """Any other."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; subprocess.TimeoutExpired after ``timeout`` seconds."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("tallymark", timeout or 0.0)
        return code


def _run(words: list[str], log: str) -> None:
    from tallymark.cli.main import main

    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["tallymark", *words]
    main()
