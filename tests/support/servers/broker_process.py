"""``tallymark broker`` as a process of its own, to be looked at and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tallymark.processes.child_process import kill_process
from tallymark.testing.zookeeper import free_port

STOP_SECONDS = 60.0
"""What the guide grants a clean stop: handing over leads, what waits for others, the disk."""


class BrokerProcess:
    """A broker with its data and its log below ``folder``; the same port at every start.
    ``settings`` are Kafka's names; ``{port}`` in a value is the port. As a context manager it
    leaves nothing running."""

    cluster: tuple[str, ...] = ("--no-zookeeper",)
    """What the command says of its cluster."""
    code: Path | None = None
    """A folder with the whole project, whose code runs from the next start on; None: this one."""
    program: tuple[str, ...] = ("-m", "tallymark", "broker")
    """What Python runs, from the next start on."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.data = folder / "data"
        self.log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._options = ["--data", str(self.data), "--port", str(self.port)]
        self.configure(**settings)

    def configure(self, **settings: object) -> None:
        """More settings, from the next start on."""
        self._options += [
            f"--set={name.replace('_', '.')}={str(value).replace('{port}', str(self.port))}"
            for name, value in settings.items()
        ]

    def start(self, seconds: float = 120, descriptors: int | None = None) -> None:
        """Start it, perhaps with so many descriptors at most, and wait until it says that it is
        ready."""
        limit = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        with self.log.open("ab") as log:
            begin = log.tell()
            command = [*limit, sys.executable, *self.program, *self._options, *self.cluster]
            env = dict(os.environ) if self.code is None else environment_of(self.code)
            env["PYTHONFAULTHANDLER"] = "1"  # see stop
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        deadline = time.monotonic() + seconds
        while f"ready {self.address}".encode() not in self._log_from(begin):
            ended = self._process.poll()
            assert ended is None, f"ended with {ended} at its start: {self._end_of_log()}"
            assert time.monotonic() < deadline, self.log.read_text()[-5000:]
            time.sleep(0.02)

    def kill(self) -> None:
        """``kill -9``."""
        assert self._process is not None
        kill_process(self._process)

    def stop(self) -> None:
        """A clean stop. One that hangs says in the log where all of its threads are."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            ended = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            process.wait(30)
            raise AssertionError(f"the stop hangs: {self._end_of_log()}") from None
        assert ended == 0, f"the stop ended with {ended}: {self._end_of_log()}"

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-8000:]

    def pause(self) -> None:
        """``SIGSTOP``: it is there, and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """The end of :meth:`pause`."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def children(self) -> set[int]:
        """Process ids of its own children (Linux)."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}

    def rss_bytes(self) -> int:
        """Resident memory of the process now (Linux)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def loop_seconds(self) -> float:
        """Processor time that its event loop, which is its first thread, has had so far (Linux)."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def loop_share(self, seconds: float = 1.0) -> float:
        """Which part of a processor its event loop takes now, looked at for so long."""
        had, began = self.loop_seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.loop_seconds() - had) / (time.monotonic() - began)

    def open_files(self) -> tuple[int, int]:
        """(sockets, other descriptors) that the process has open (Linux)."""
        sockets = others = 0
        folder = Path(f"/proc/{self.pid}/fd")
        for name in folder.iterdir():
            try:
                target = os.readlink(name)
            except FileNotFoundError:
                continue
            sockets += target.startswith("socket:")
            others += not target.startswith("socket:")
        return sockets, others

    def _log_from(self, begin: int) -> bytes:
        with self.log.open("rb") as log:
            log.seek(begin)
            return log.read()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            kill_process(self._process)


def environment_of(code: Path) -> dict[str, str]:
    """So that Python finds the rooms of the project in this folder, and not those of this one."""
    rooms = ("platform", "audit", "schema_registry", "spark_jobs", "dashboards")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(code / room) for room in rooms)}
