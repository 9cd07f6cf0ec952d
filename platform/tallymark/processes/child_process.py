"""Ending a process that we have started."""

from __future__ import annotations

import signal
from subprocess import Popen, TimeoutExpired
from typing import Any


def stop_process(
    process: Popen[Any], timeout: float, number: signal.Signals = signal.SIGTERM
) -> bool:
    """Ask it to end, kill it after ``timeout`` seconds, and wait until it is gone. Whether it ended
    when it was asked. One that is gone already is fine."""
    process.send_signal(number)
    try:
        process.wait(timeout)
    except TimeoutExpired:
        kill_process(process)
        return False
    return True


def kill_process(process: Popen[Any]) -> None:
    """SIGKILL, as a crash does, and wait until it is gone."""
    process.kill()
    process.wait()
