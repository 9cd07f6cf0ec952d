"""The drill's processes: started in order, killed, paused, started again, always ended.

They die with the drill: each asks the kernel for a signal when its parent is gone. A paused one
could not obey, so pauses are ended by a process of their own that does not ask (:data:`_PAUSE`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.processes.supervisor.plan import ProcessSpec, plan
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, TOPIC, ProxyHop, Topology
from tallymark_audit.proof.harness.commands import Command

START_SECONDS: Final = 120.0
"""For what takes seconds on a machine that does nothing else."""
_PAUSE: Final = """
import os, signal, sys, time
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
os.kill(pid, signal.SIGSTOP)
try:
    time.sleep(seconds)
finally:
    os.kill(pid, signal.SIGCONT)
"""


_MOST_DEATHS: Final = 5
"""Of collectors: one that dies more often will not live."""


class DrillProcesses:
    """Every process of one drill, by name. ``deaths``: collectors that ended although the drill did
    not end them, with their last words; they are started again, and the drill goes on without
    mercy."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._logs = topology.deployment.log_dir
        self._specs = {spec.name: spec for spec in plan(topology.deployment)}
        self._running: dict[str, Command] = {}
        self._lives: dict[str, int] = {}
        self._pauses: list[subprocess.Popen[bytes]] = []
        self._held: dict[str, subprocess.Popen[bytes]] = {}
        self.deaths: list[str] = []

    # -- starting -------------------------------------------------------------------------------

    def start_services(self, prefixes: Sequence[str]) -> None:
        """Start all services whose name begins so, and wait until they serve."""
        names = [name for name in self._specs if name.startswith(tuple(prefixes))]
        for name in names:
            self.start(name)
        for name in names:
            self.wait_ready(name)

    def start(self, name: str) -> None:
        """Start one service of the deployment, or start it again; it serves a little later."""
        spec: ProcessSpec = self._specs[name]
        settings = self._topology.own.get(name, self._topology.settings)
        self._launch(name, spec.arguments, settings)

    def start_proxy(self, hop: ProxyHop, seed: int) -> None:
        """Start the proxy of a hop, without orders."""
        name = proxy_of(hop.name)
        config = {
            "gates": [asdict(gate) for gate in hop.gates],
            "hop": hop.name,
            "topic": TOPIC if hop.name == CONSUMER_HOP else "",
            "seed": seed,
            "orders": str(self.orders_file(hop.name)),
            "sealed": str(self._topology.sealed / f"{name}.sealed"),
        }
        self._module(name, "tallymark_audit.proof.drill.faults.proxy", config)

    def start_producer(self, name: str, config: Mapping[str, Any]) -> None:
        """Start a producer; it is ready once it sends."""
        self._module(name, "tallymark_audit.proof.drill.applications.producer", config)

    def start_transactional(self, name: str, config: Mapping[str, Any]) -> None:
        """Start a transactional producer; it is ready once it has its id."""
        self._module(name, "tallymark_audit.proof.drill.applications.transactional", config)

    def start_bulk(self, name: str, config: Mapping[str, Any]) -> None:
        """Start a producer that ends by itself: see :meth:`wait_for_end`."""
        self._module(name, "tallymark_audit.proof.drill.applications.bulk", config)

    def start_consumer(self, name: str, config: Mapping[str, Any]) -> None:
        """Start a consumer of a group; it is ready once it has partitions."""
        self._module(name, "tallymark_audit.proof.drill.applications.consumer", config)

    def orders_file(self, hop: str) -> Path:
        """Where the proxy of the hop looks for its orders."""
        return self._topology.folder / f"orders-{_plain(hop)}.json"

    def command(self, name: str, arguments: Sequence[str | Path]) -> Command:
        """Run a ``tallymark`` command that ends by itself."""
        return Command(name, arguments, self._topology.settings, self._logs)

    def _module(self, name: str, module: str, config: Mapping[str, Any]) -> None:
        path = self._topology.folder / f"{name}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        self._launch(name, [path], self._topology.settings, module)

    def _launch(
        self, name: str, arguments: Sequence[str | Path], settings: Path, module: str = "tallymark"
    ) -> None:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        log = name if life == 1 else f"{name}.{life}"
        self._running[name] = Command(log, arguments, settings, self._logs, module)

    def wait_ready(self, name: str) -> None:
        """Wait until it says that it serves. UserError: it ended, or took too long."""
        command = self._running[name]
        command.wait_for(partial(command.said, ": ready"), "start", START_SECONDS)

    def has_hit(self, hop: str, kind: str) -> bool:
        """Whether the proxy of the hop has made such a fault at all."""
        return self._running[proxy_of(hop)].said(f"first {kind}")

    # -- faults ---------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """``kill -9``; afterwards it is not expected to run."""
        self._running.pop(name).kill()

    def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds, whatever becomes of the drill."""
        arguments = [sys.executable, "-c", _PAUSE, str(self._running[name].pid), str(seconds)]
        self._pauses.append(subprocess.Popen(arguments, start_new_session=True))

    def hold(self, name: str, most: float) -> None:
        """SIGSTOP at once, until :meth:`resume`, or for so many seconds if the drill dies."""
        os.kill(self._running[name].pid, signal.SIGSTOP)
        self.pause(name, most)
        self._held[name] = self._pauses.pop()

    def resume(self, name: str) -> None:
        """Let what is held go on."""
        self._end_hold(self._held.pop(name))
        os.kill(self._running[name].pid, signal.SIGCONT)

    # -- ending ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Note and start again a collector that has ended; UserError: anything else has."""
        for name, command in list(self._running.items()):
            if not (name.startswith("collector-") and command.ended):
                command.check()
                continue
            self.deaths.append(str(command.fail("ended")))
            if len(self.deaths) > _MOST_DEATHS:
                command.check()
            self.start(name)

    def stop(self, prefix: str) -> None:
        """End all whose name begins so in order, and wait for them. UserError: one ended badly."""
        for name in [name for name in self._running if name.startswith(prefix)]:
            self._running.pop(name).stop()

    def finish(self, prefix: str, timeout: float) -> None:
        """Ask all whose name begins so to end, and wait for each to do so well."""
        ending = {name: one for name, one in self._running.items() if name.startswith(prefix)}
        for name in ending:
            self.wait_ready(name)  # before, it could not end in order
        for command in ending.values():
            os.kill(command.pid, signal.SIGTERM)
        for name, command in ending.items():
            code = command.wait(timeout)
            del self._running[name]
            if code:
                raise command.fail(f"failed (exit {code})")

    def wait_for_end(self, prefix: str, timeout: float) -> None:
        """Wait until all whose name begins so have ended by themselves and well, while all others
        stay. UserError: not so."""
        ending = {name: one for name, one in self._running.items() if name.startswith(prefix)}
        for name in ending:
            del self._running[name]
        end = time.monotonic() + timeout
        try:
            for command in ending.values():
                while not command.ended:
                    self.check()
                    if time.monotonic() > end:
                        raise command.fail(f"did not end within {timeout:g} s")
                    time.sleep(0.2)
                if code := command.wait(1):
                    raise command.fail(f"failed (exit {code})")
        finally:
            for command in ending.values():
                command.kill()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        # Nothing of it is needed any more, so nobody is asked to finish; the last first, since
        # those would only complain that the first ones are gone.
        for command in reversed(self._running.values()):
            command.kill()
        self._running.clear()
        for held in self._held.values():
            self._end_hold(held)
        for pause in self._pauses:
            with suppress(subprocess.TimeoutExpired):
                pause.wait(START_SECONDS)

    @staticmethod
    def _end_hold(held: subprocess.Popen[bytes]) -> None:
        """Before the process goes on: it would be stopped by one that is late."""
        held.kill()
        held.wait()


def proxy_of(hop: str) -> str:
    """What the proxy of a hop is called."""
    return f"proxy-{_plain(hop)}"


def _plain(hop: str) -> str:
    return hop.replace(":", "-")


def wait_until(
    holds: Any, seconds: float, what: str, processes: DrillProcesses | None = None
) -> None:
    """Wait, bounded. UserError: ``what`` did not come to pass."""
    end = time.monotonic() + seconds
    while not holds():
        if processes is not None:
            processes.check()
        if time.monotonic() > end:
            raise UserError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(0.2)
