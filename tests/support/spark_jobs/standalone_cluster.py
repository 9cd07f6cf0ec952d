"""A Spark cluster of its own: a standalone master and workers as processes, on loopback.

They are started from the package pyspark, which holds all of Spark, with an environment that knows
nothing of this checkout.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tallymark.processes.child_process import kill_process
from tallymark_spark_jobs.engine.said import spark_home

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_READY = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class StandaloneCluster:
    """A master and ``workers`` of one core each. As a context manager it leaves nothing running."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.master = ""
        self._wanted = workers
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._run("master", _MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.master = self._said("master", _READY)
            for number in range(self._wanted):
                self.add_worker(f"worker-{number}")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            kill_process(process)
        self._processes.clear()

    def add_worker(self, name: str) -> None:
        """Start a worker, and wait until the master knows it."""
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "-d")
        size = ("--cores", "1", "--memory", "1g")
        self._run(name, _WORKER, *size, *place, str(self.folder / name), self.master)
        self._said(name, re.compile(f"({_REGISTERED})"))

    def kill_worker(self, name: str) -> None:
        """``kill -9``, of the worker and of its executors, as when the machine dies."""
        executors = self.executors(name)
        kill_process(self._processes.pop(name))
        for pid in executors:
            os.kill(pid, 9)

    def worker_of(self, task: int) -> str:
        """On which worker the process of a task runs."""
        above = set(_ancestors(task))
        (name,) = [name for name, process in self._processes.items() if process.pid in above]
        return name

    def executors(self, name: str) -> list[int]:
        """The processes of the Java machines that the worker has started."""
        parent = self._processes[name].pid
        return [
            pid for pid in _children(parent) if b"CoarseGrainedExecutorBackend" in _command(pid)
        ]

    def submit(
        self, arguments: list[str], folder: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """``spark-submit`` to this cluster, in ``folder``; its output is text in two pipes."""
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", self.master, *arguments]
        return subprocess.Popen(
            command,
            cwd=folder,
            env=clean_environment() | dict(more or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _run(self, name: str, program: str, *arguments: str) -> None:
        command = [str(spark_home() / "bin" / "spark-class"), program, *arguments]
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, cwd=self.folder, env=clean_environment(), stdout=log, stderr=log
            )

    def _said(self, name: str, words: re.Pattern[str], seconds: float = 120) -> str:
        deadline = time.monotonic() + seconds
        while not (found := words.search(self._log(name).read_text(errors="replace"))):
            process, log = self._processes[name], self._log(name)
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        return found[1]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def clean_environment() -> dict[str, str]:
    """What Spark's processes are started with: nothing that names this checkout or its Python."""
    kept = {
        name: os.environ[name] for name in ("JAVA_HOME", "TMPDIR", "LANG") if name in os.environ
    }
    return kept | {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "SPARK_DAEMON_MEMORY": "256m",
    }


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        # After the name, which may have spaces and brackets: the state, and the parent.
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _children(parent: int) -> list[int]:
    listed = Path(f"/proc/{parent}/task/{parent}/children")
    found = {int(pid) for task in listed.parents[1].iterdir() for pid in _listed(task)}
    return sorted(found)


def _listed(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
