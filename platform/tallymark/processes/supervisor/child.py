"""One operating-system process of the stack: spawn it, follow its log, end it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tallymark.deployment.load import ENVIRONMENT
from tallymark.log_rotation import LOG_BYTES, copied
from tallymark.private_files import log_opener
from tallymark.processes.process import PARENT
from tallymark.processes.supervisor.plan import ProcessSpec

READY = re.compile(rb'^(?:\S+ INFO \S+: |\{.*"message": ")ready\b', re.MULTILINE)
"""In a log of text, or of JSON."""


class ChildProcess:
    """A running process and the part of its log that belongs to this run."""

    def __init__(self, spec: ProcessSpec, settings: Path, log_dir: Path) -> None:
        self.log_path = log_dir / f"{spec.name}.log"
        with open(self.log_path, "ab", opener=log_opener) as log:
            self._position = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tallymark", *spec.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(settings),
                # A group of its own: Ctrl-C reaches the supervisor alone, which stops in order.
                start_new_session=True,
            )
        self.pid = self._process.pid

    def exit_status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def is_ready(self) -> bool:
        """Whether the process has said ``ready`` since the last call looked."""
        with self.log_path.open("rb") as log:
            if log.seek(0, os.SEEK_END) < self._position:  # it was set aside
                self._position = 0
            log.seek(self._position)
            news = log.read()
        complete = news.rfind(b"\n") + 1
        self._position += complete
        return READY.search(news, 0, complete) is not None

    def rotate_log(self) -> None:
        """Set its log aside where that has grown long; once in a while is enough."""
        try:
            if self.log_path.stat().st_size > LOG_BYTES:
                copied(self.log_path)
        except OSError:
            pass  # a full disk, say: the next look tries again

    def why(self) -> str:
        """How it ended, and the last thing it said."""
        status = self.exit_status()
        how = "still running"
        if status is not None:
            how = f"killed by {_signal_name(-status)}" if status < 0 else f"exit {status}"
        last = last_line(self.log_path)
        return f"{how}: {last}" if last and status else how

    def send(self, number: signal.Signals) -> None:
        """Signal the process; one that is gone already is fine."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout: float) -> bool:
        """Whether the process ended within ``timeout`` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True


def last_line(path: Path) -> str:
    """The last non-empty line of a log, without its time; empty when there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 2000))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return re.sub(r"^\d{4}-\S+Z ", "", lines[-1])[:300] if lines else ""


def _environment(settings: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        ENVIRONMENT: str(settings),
        PARENT: str(os.getpid()),
        "PYTHONUNBUFFERED": "1",
        # The stack's processes must find the same packages wherever they are started from.
        "PYTHONSAFEPATH": "1",
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
