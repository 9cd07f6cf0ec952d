"""How long the supervisor waits for each process before it kills it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import cast

import pytest

from tallymark.deployment import Deployment
from tallymark.processes.supervisor import run
from tallymark.processes.supervisor.child import ChildProcess
from tallymark.processes.supervisor.run import Supervisor


class SlowChild:
    """A process that ends so many seconds after SIGTERM, or at once when it is killed."""

    pid = 1

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sent: list[signal.Signals] = []
        self._ends: float | None = None

    def send(self, number: signal.Signals) -> None:
        self.sent.append(number)
        wait = self.seconds if number == signal.SIGTERM else 0
        self._ends = time.monotonic() + wait

    def exit_status(self) -> int | None:
        return 0 if self._ends is not None and time.monotonic() >= self._ends else None

    def is_ready(self) -> bool:
        return True

    def why(self) -> str:
        return ""


def test_a_broker_that_hands_over_and_flushes_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may take 15 s to hand over its leads, then 30 s for what waits for others, then the
    time of its disk. ``tallymark up`` killed each process 15 s after SIGTERM, so such a broker left
    no mark of a clean stop, and recovered all its logs at the next start."""
    assert run.BROKER_STOP_SECONDS >= 60 > run.STOP_SECONDS
    monkeypatch.setattr(run, "STOP_SECONDS", 0.1)
    made = Supervisor(Deployment(data_dir=tmp_path), lambda *_: None)
    broker, mirror = SlowChild(0.6), SlowChild(600)
    found = {"broker-dc1-0": broker, "mirror-dc1-to-aggregate": mirror}
    for name, child in found.items():
        made._processes[name] = cast("ChildProcess", child)
    made.stop()
    assert made._processes == {}
    assert broker.sent == [signal.SIGTERM]
    assert mirror.sent == [signal.SIGTERM, signal.SIGKILL]
