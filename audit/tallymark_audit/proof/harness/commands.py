"""The processes that the demo starts: the stack, the publishers, single commands. All are the real
``tallymark`` commands, with a log each; when one fails, its last words and its log are the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tallymark.deployment.load import ENVIRONMENT
from tallymark.errors import UserError
from tallymark.processes.child_process import kill_process, stop_process
from tallymark.processes.process import PARENT
from tallymark.processes.supervisor.child import last_line

STOP_SECONDS = 30.0


class Command:
    """One running ``tallymark`` command (or other ``module``), its output in
    ``<log_dir>/<name>.log``."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str | Path],
        settings: Path,
        log_dir: Path,
        module: str = "tallymark",
    ) -> None:
        log_dir.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = log_dir / f"{name}.log"
        environment = {
            **os.environ,
            ENVIRONMENT: str(settings),
            PARENT: str(os.getpid()),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "150",  # its output goes to a file: tables need not be narrow
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._process.poll() is not None

    def fail(self, what: str) -> UserError:
        """The error that names this command's last words and its log."""
        said = last_line(self.log)
        return UserError(f"{self.name} {what}" + (f": {said}" if said else ""), f"see {self.log}")

    def check(self) -> None:
        """Raise UserError if the command has ended, although it should not have."""
        if self.ended:
            raise self.fail(f"ended (exit {self._process.returncode})")

    def wait_for(self, happened: Callable[[], bool], what: str, timeout: float) -> None:
        """Wait until something has happened while the command runs."""
        end = time.monotonic() + timeout
        while not happened():
            self.check()
            if time.monotonic() > end:
                raise self.fail(f"did not {what} within {timeout:g} s")
            time.sleep(0.1)

    def wait(self, timeout: float) -> int:
        """The exit code. Raises UserError when the command takes longer (seconds)."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise self.fail(f"did not end within {timeout:g} s") from None

    def said(self, text: str) -> bool:
        """Whether the log holds the text."""
        return text in self.log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """End the command with SIGKILL."""
        kill_process(self._process)

    def stop(self) -> None:
        """End the command as a person would, and wait for it."""
        stop_process(self._process, STOP_SECONDS)
