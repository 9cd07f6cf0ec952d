"""The compiled loop over strips touches no byte beside its buffers, whatever the tables say: the
memory there is not accessible."""

from __future__ import annotations

import os
import subprocess
import sys

import guarded_strips
import pytest

pytest.importorskip("numba")
pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "seeds", [600, pytest.param(300_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_nothing_is_touched_beside_the_buffers(seeds: int) -> None:
    done = subprocess.run(
        [sys.executable, guarded_strips.__file__ or "", str(seeds)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    number, _, what = done.stdout.partition(" ")
    assert what == "whole\n"
    assert seeds // 5 < int(number) < seeds
