"""A server that runs as a child process: started until it answers, checked, stopped, killed.

The child dies with its parent, however that ends (:mod:`tallymark.processes.die_with_parent`).
:class:`ServerProcess` is what ZooKeeper, Apache Kafka and the brokers of the benchmarks share; a
subclass says how its server is launched, when it answers, and what it printed.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from tallymark.closing import ClosedByWith
from tallymark.errors import UserError
from tallymark.processes import die_with_parent
from tallymark.processes.child_process import kill_process, stop_process

_WORDS: Final = 1_000
"""Characters of the last output in an error."""


class ServerProcess(ClosedByWith, ABC):
    """One server on ``host:port`` with its data in ``folder``.

    As a context manager it starts and stops; it may be stopped, killed and started again in
    between. Not thread-safe. ``start`` must be called from a thread that lives as long as the
    server shall: on Linux the child is bound to the thread that made it.
    """

    product: ClassVar[str]
    """Its name in errors."""
    log: ClassVar[logging.Logger] = logging.getLogger("tallymark.processes")
    start_seconds: ClassVar[float] = 60.0
    stop_seconds: ClassVar[float] = 10.0

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self.folder = folder.absolute()
        self.host = host
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the server while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self, timeout: float | None = None) -> None:
        """Start it and wait until it answers. UserError says what is missing or taken, or has its
        last words when it does not start."""
        self.launch()
        self.wait_ready(timeout)

    def launch(self) -> None:
        """The first half of :meth:`start`, for servers that answer only when others of them run."""
        self._launch()

    def wait_ready(self, timeout: float | None = None) -> None:
        """The second half of :meth:`start`: wait until it answers; it is killed when it does not
        in ``timeout`` seconds."""
        try:
            self._wait_ready(self.start_seconds if timeout is None else timeout)
        except BaseException:
            self.kill()
            raise

    def check(self) -> None:
        """UserError when it has ended by itself."""
        process = self._process
        if process is not None and process.poll() is not None:
            raise UserError(
                f"{self.product} on {self.address} ended by itself "
                f"(exit code {process.returncode})",
                f"its last words: {self._last_words()}",
            )

    def stop(self, timeout: float | None = None) -> None:
        """SIGTERM, then SIGKILL after ``timeout`` seconds. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            in_time = stop_process(process, self.stop_seconds if timeout is None else timeout)
            self._on_end(process, in_time)

    def close(self) -> None:
        """The same as :meth:`stop`."""
        self.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash does. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            kill_process(process)
            self._on_end(process, True)

    def __enter__(self) -> Self:
        self.start()
        return self

    @abstractmethod
    def _launch(self) -> None:
        """Write its files and :meth:`_spawn` it. UserError says what is missing."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves clients by now."""

    @abstractmethod
    def _output_lines(self) -> Sequence[str]:
        """The end of what it printed."""

    def _on_end(self, process: subprocess.Popen[bytes], in_time: bool) -> None:
        """Called when the process has ended; ``in_time`` is False if stop() had to kill it."""
        if not in_time:
            self.log.warning("%s did not stop, it was killed", self.product)
        if process.stdout is not None:
            process.stdout.close()

    def _spawn(self, command: Sequence[str], output: Any, pass_fds: Sequence[int] = ()) -> None:
        # A process of its own between us and the server would cost memory; this one becomes it.
        wrapper = [sys.executable, "-I", str(die_with_parent.__file__), str(os.getpid())]
        self._process = subprocess.Popen(
            [*wrapper, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            pass_fds=pass_fds,
            umask=0o077,  # its data may hold the users' salted keys
            # Ctrl-C on a terminal goes to us; we stop the child in our own time.
            start_new_session=True,
        )

    def _wait_ready(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.check()
            if self._answers():
                return
            time.sleep(0.05)
        raise UserError(
            f"{self.product} does not answer on {self.host}:{self.port} after {timeout:g} s",
            f"its last words: {self._last_words()}",
        )

    def _last_words(self) -> str:
        lines = list(self._output_lines())
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return " | ".join((errors or lines)[-3:])[:_WORDS] or "none"
