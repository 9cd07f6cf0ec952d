"""Ending processes that we have started."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallymark.processes.child_process import kill_process, stop_process

WAITS = "print('ready', flush=True); import time; time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"


@contextmanager
def child(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process that is under way, and gone afterwards."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_one_that_ends_when_it_is_asked_is_not_killed(number: signal.Signals) -> None:
    with child(WAITS) as process:
        assert stop_process(process, 60, number)
        assert process.returncode == -number


def test_one_that_does_not_end_is_killed() -> None:
    with child(IGNORES) as process:
        assert not stop_process(process, 0.1)
        assert process.returncode == -signal.SIGKILL


def test_one_that_is_gone_already_is_fine() -> None:
    with child(WAITS) as process:
        kill_process(process)
        assert stop_process(process, 60)
        kill_process(process)
        assert process.returncode == -signal.SIGKILL
