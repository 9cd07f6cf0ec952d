"""The compiled loops over runs touch no byte beside their buffers, whatever the tables say: the
memory there is not accessible."""

from __future__ import annotations

import os
import subprocess
import sys

import guarded_runs
import pytest

pytest.importorskip("numba")
pytestmark = pytest.mark.process

LONG = [pytest.mark.soak, pytest.mark.timeout(7200)]
"""Of processor time it takes five minutes; on a busy machine that was its limit, too."""


@pytest.mark.parametrize("seeds", [1000, pytest.param(300_000, marks=LONG)])
def test_nothing_is_touched_beside_the_buffers(seeds: int) -> None:
    done = subprocess.run(
        [sys.executable, guarded_runs.__file__ or "", str(seeds)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    number, _, what = done.stdout.partition(" ")
    assert what == "whole\n"
    assert seeds // 5 < int(number) < seeds
