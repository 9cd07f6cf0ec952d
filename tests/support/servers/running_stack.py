"""The whole stack, as ``tallymark up`` starts it, and what a test does to it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventually import eventually

from tallymark.deployment import Deployment, dump_toml
from tallymark.processes.child_process import kill_process
from tallymark.processes.ports import with_free_ports
from tallymark.processes.supervisor.control import ask
from tallymark.processes.supervisor.run import control_file
from tallymark_audit.proof.harness.commands import Command

WINDOW_MS = 2_000


class Stack:
    """The running stack of one test."""

    def __init__(self, deployment: Deployment, settings: Path, up: Command) -> None:
        self.deployment = deployment
        self.settings = settings
        self.up = up
        self.publishers: dict[str, subprocess.Popen[bytes]] = {}
        """By their runs."""

    def process(self, name: str) -> dict[str, Any]:
        """What the supervisor says of one process."""
        answer = ask(control_file(self.deployment), {"do": "status"})
        found: dict[str, Any] = next(one for one in answer["processes"] if one["name"] == name)
        return found

    def kill(self, name: str, back_within: float = 60) -> None:
        """``kill -9``, and wait until it serves again."""
        old = self.process(name)["pid"]
        ask(control_file(self.deployment), {"do": "kill", "name": name})

        def serves_again() -> bool:
            process = self.process(name)
            return bool(process["state"] == "ready" and process["pid"] != old)

        eventually(serves_again, seconds=back_within, what=f"{name} serves again")

    def publisher(self, cluster: str, topic: str, run: str) -> subprocess.Popen[bytes]:
        """Start a publisher; what was acknowledged to it is in ``acked(run)``."""
        bootstrap = self.deployment.cluster(cluster).bootstrap_servers
        script = Path(__file__).with_name("publisher.py")
        log = self.settings.with_name(f"publisher-{run}.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(script), bootstrap, topic, run, str(self._acked(run))],
                stdout=output,
                stderr=output,
                env={**os.environ, "TALLYMARK_SETTINGS": str(self.settings)},
            )
        self.publishers[run] = process
        return process

    def acked(self, run: str) -> set[bytes]:
        """The values that were acknowledged to a publisher."""
        path = self._acked(run)
        return set(path.read_bytes().split()) if path.exists() else set()

    def command(self, *arguments: str, timeout: float = 120) -> tuple[int, str]:
        """Run a ``tallymark`` command on the stack: exit code and output."""
        name = f"command-{time.monotonic_ns()}"
        command = Command(name, arguments, self.settings, self.deployment.log_dir)
        return command.wait(timeout), command.log.read_text()

    def stop_publishers(self) -> None:
        """End them in order and see that they ended well."""
        for process in self.publishers.values():
            if process.poll() is None:
                process.terminate()
                assert process.wait(60) == 0

    def close(self) -> None:
        for process in self.publishers.values():
            kill_process(process)
        self.up.stop()

    def _acked(self, run: str) -> Path:
        return self.settings.with_name(f"acked-{run}")  # not where a test fills the disk


@contextmanager
def stack_in(folder: Path, data: Path, usual: Deployment | None = None) -> Iterator[Stack]:
    """A stack of the usual settings, but for short windows and free ports; its settings, and what
    the test writes, are in ``folder``."""
    usual = usual or Deployment()
    audit = usual.audit.model_copy(
        update={
            "window_ms": WINDOW_MS,
            "settle_min_ms": 3_000,
            "settle_max_ms": 3_000,
            "report_interval_ms": 500,
            "silence_ms": 15_000,
        }
    )
    deployment = with_free_ports(usual.model_copy(update={"data_dir": data, "audit": audit}))
    with stack_of(folder, deployment) as running:
        yield running


@contextmanager
def stack_of(folder: Path, deployment: Deployment, *options: str) -> Iterator[Stack]:
    """A stack of these settings, as they are, and ``tallymark up`` with ``options``; the settings
    file is in ``folder``."""
    settings = folder / "tallymark.toml"
    settings.write_text(dump_toml(deployment))
    up = Command("up", ["up", "--settings", settings, *options], settings, deployment.log_dir)
    running = Stack(deployment, settings, up)
    try:
        up.wait_for(lambda: up.said("The stack is up"), "start", 240)
        yield running
    finally:
        running.close()
