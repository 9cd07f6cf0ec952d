"""Compiled code reads and writes no byte beside its buffers: the memory there is not accessible."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import guard_page
import pytest

pytest.importorskip("numba")
pytestmark = pytest.mark.process

LONG = [pytest.mark.soak, pytest.mark.timeout(7200)]
"""Of processor time it takes five minutes; on a busy machine that was its limit, too."""


def run(what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, guard_page.__file__ or "", what]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seeds", [4000, pytest.param(400_000, marks=LONG)])
def test_nothing_is_touched_beside_the_buffers(seeds: int) -> None:
    done = run(str(seeds))
    assert done.returncode == 0, done.stderr[-2000:]
    copied, what, number, end = done.stdout.split()
    assert (what, end) == ("copied,", "whole")
    assert seeds // 5 < int(number) < seeds * 4 // 5
    assert int(copied) > seeds // 20


def test_a_byte_beside_a_buffer_would_end_the_process() -> None:
    """Otherwise the test above says nothing."""
    assert Path(guard_page.__file__ or "").name == "guard_page.py"
    assert run("outside").returncode == -signal.SIGSEGV
