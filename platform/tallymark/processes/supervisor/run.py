"""The shell around :mod:`.state`: spawns and watches the processes, answers the control socket."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tallymark.clock import now_ms
from tallymark.deployment import Deployment, dump_toml
from tallymark.errors import UserError
from tallymark.private_files import open_locked, write_private
from tallymark.processes.supervisor import state
from tallymark.processes.supervisor.child import ChildProcess
from tallymark.processes.supervisor.control_server import ControlServer
from tallymark.processes.supervisor.plan import ProcessSpec, plan
from tallymark.processes.supervisor.state import Child, State

POLL_SECONDS = 0.05
STOP_SECONDS = 15.0
"""How long a process may take to stop, before it is killed."""
BROKER_STOP_SECONDS = 60.0
"""The same of brokers: handing over leads and all that waits for others have 15 s and 30 s by
default, then logs are flushed (20 s for 10,000 partitions). One that is killed meanwhile recovers
its logs at the next start."""
LONGEST_STOP_SECONDS = 4 * STOP_SECONDS + BROKER_STOP_SECONDS + STOP_SECONDS
"""What :meth:`Supervisor.stop` may take: each stage, and what it kills."""
ROTATE_MS = 2_000
"""How often logs are looked at: a process that writes as fast as it can is bounded by
:mod:`tallymark.processes.log_rates`."""
Report = Callable[[ProcessSpec, Child, Path], None]


def run_dir(deployment: Deployment) -> Path:
    """Where the supervisor keeps its lock and its control socket."""
    return deployment.data_dir.absolute() / "run"


def lock_file(deployment: Deployment) -> Path:
    """The file that is locked while a supervisor runs."""
    return run_dir(deployment) / "lock"


def control_file(deployment: Deployment) -> Path:
    """The socket that :func:`~.control.ask` asks."""
    return run_dir(deployment) / "control.sock"


class Supervisor:
    """Owns every process of the stack. Use :meth:`start`, then :meth:`step` until done, then
    :meth:`stop`; ``report`` is called at each change of a process's state."""

    def __init__(self, deployment: Deployment, report: Report) -> None:
        self.deployment = deployment
        self._report = report
        self._specs = {spec.name: spec for spec in plan(deployment)}
        self._children = {s.name: Child(s.name, s.after) for s in self._specs.values()}
        self._processes: dict[str, ChildProcess] = {}
        self.settings_file = deployment.data_dir.absolute() / "deployment.toml"
        self._rotated_ms = 0
        self._lock: int | None = None
        self._control: ControlServer | None = None

    def start(self) -> None:
        """Take the data folder for this run and write the settings the processes read."""
        run_dir(self.deployment).mkdir(parents=True, exist_ok=True)
        self.deployment.log_dir.mkdir(parents=True, exist_ok=True)
        self._lock = _take_lock(lock_file(self.deployment))
        # Absolute: commands that are pointed at the file may run in another folder.
        absolute = {"data_dir": self.deployment.data_dir.absolute()}
        resolved = self.deployment.model_copy(update=absolute)
        write_private(self.settings_file, dump_toml(resolved))
        self._control = ControlServer(control_file(self.deployment))

    def step(self) -> None:
        """Look at every process once, and answer the control socket."""
        now = now_ms()
        self._watch(now)
        for name, child in list(self._children.items()):
            if state.tick(child, self._children, now) == "start":
                self._spawn(name, now)
        self._rotate(now)
        self._answer(now)

    def all_ready(self) -> bool:
        """Whether every process serves."""
        return all(child.state is State.READY for child in self._children.values())

    def given_up(self) -> list[Child]:
        """The processes that would not start."""
        return [c for c in self._children.values() if c.state is State.GIVEN_UP]

    def stop(self) -> None:
        """Stop what consumes first, then the brokers, then ZooKeeper; kill what does not end."""
        consumers, brokers, zookeeper = _stop_stages(list(self._specs))
        self._stop_stage(consumers, STOP_SECONDS)
        self._stop_stage(brokers, BROKER_STOP_SECONDS)
        self._stop_stage(zookeeper, STOP_SECONDS)
        if self._control is not None:
            self._control.close()
        if self._lock is not None:
            os.close(self._lock)

    def log_path(self, name: str) -> Path:
        """Where a process writes its log."""
        return self.deployment.log_dir / f"{name}.log"

    def _spawn(self, name: str, now: int) -> None:
        process = ChildProcess(self._specs[name], self.settings_file, self.deployment.log_dir)
        self._processes[name] = process
        self._set(state.started(self._children[name], process.pid, now))

    def _watch(self, now: int) -> None:
        for name, process in list(self._processes.items()):
            child = self._children[name]
            if child.state is State.STARTING and process.is_ready():
                self._set(state.ready(child, now))
            if process.exit_status() is not None:
                del self._processes[name]
                self._set(state.exited(self._children[name], process.why(), now))

    def _set(self, child: Child) -> None:
        before = self._children[child.name]
        self._children[child.name] = child
        if before.state is not child.state or before.pid != child.pid:
            self._report(self._specs[child.name], child, self.log_path(child.name))

    def _rotate(self, now: int) -> None:
        if now - self._rotated_ms >= ROTATE_MS:
            self._rotated_ms = now
            for process in self._processes.values():
                process.rotate_log()

    def _answer(self, now: int, *, stopping: bool = False) -> None:
        assert self._control is not None
        for request, answer in self._control.pending():
            if not answer.set_running_or_notify_cancel():
                continue  # the client has gone
            if stopping and request.get("do") != "status":
                answer.set_result({"ok": False, "error": "the stack is stopping"})
            else:
                answer.set_result(self._obey(request, now))

    def _obey(self, request: dict[str, Any], now: int) -> dict[str, Any]:
        do, name = request.get("do"), str(request.get("name"))
        if do == "status":
            return {"ok": True, "processes": [self._describe(n, now) for n in self._specs]}
        if name not in self._children:
            return {"ok": False, "error": f"there is no process {name!r}"}
        if do == "hold":
            self._set(state.hold(self._children[name], now))
        elif do == "release":
            self._set(state.release(self._children[name], now))
        elif do == "kill":
            if name in self._processes:
                self._processes[name].send(signal.SIGKILL)
        else:
            return {"ok": False, "error": f"unknown request {do!r}"}
        return {"ok": True, "process": self._describe(name, now)}

    def _describe(self, name: str, now: int) -> dict[str, Any]:
        child, spec = self._children[name], self._specs[name]
        return {
            "name": name,
            "state": child.state.value,
            "seconds": (now - child.since_ms) // 1000 if child.since_ms else 0,
            "pid": child.pid,
            "restarts": child.restarts,
            "address": spec.address,
            "reason": child.reason,
            "log": str(self.log_path(name)),
        }

    def _stop_stage(self, names: list[str], seconds: float) -> None:
        for name in names:
            self._set(state.stop(self._children[name], now_ms()))
            if name in self._processes:
                self._processes[name].send(signal.SIGTERM)
        if not self._wait_gone(names, seconds):
            for name in names:
                if name in self._processes:
                    self._processes[name].send(signal.SIGKILL)
            self._wait_gone(names, STOP_SECONDS)

    def _wait_gone(self, names: list[str], seconds: float) -> bool:
        """Whether all of them ended in time; requests are answered meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            now = now_ms()
            self._watch(now)
            if self._control is not None:
                self._answer(now, stopping=True)
            gone = not any(name in self._processes for name in names)
            if gone or time.monotonic() >= deadline:
                return gone
            time.sleep(POLL_SECONDS)


def _stop_stages(names: list[str]) -> list[list[str]]:
    def stage(name: str) -> int:
        return {"zookeeper": 2}.get(name, 1 if name.startswith("broker-") else 0)

    return [[name for name in names if stage(name) == wanted] for wanted in range(3)]


def _take_lock(path: Path) -> int:
    try:
        return open_locked(path)
    except BlockingIOError:
        raise UserError(
            f"a stack is already running on {path.parent.parent}",
            "stop it with tallymark down, or give another data_dir in the settings",
        ) from None
