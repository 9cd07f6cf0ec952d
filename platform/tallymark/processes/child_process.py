"""Ending a process that we have started."""

from __future__ import annotations

import signal
from subprocess import Popen, TimeoutExpired
from typing import Any


def stop_process(
    process: Popen[Any], timeout: float, number: signal.Signals = signal.SIGTERM
) -> bool:
    """Send the signal, kill the process after ``timeout`` seconds, and wait for its end. Returns
    whether it ended without being killed. A process that has ended already is fine."""
    process.send_signal(number)
    try:
        process.wait(timeout)
    except TimeoutExpired:
        kill_process(process)
        return False
    return True


def kill_process(process: Popen[Any]) -> None:
    """SIGKILL, as a crash does, and wait for the end."""
    process.kill()
    process.wait()
