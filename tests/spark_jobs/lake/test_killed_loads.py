"""Loaders that are killed at any moment lose nothing and repeat nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lake_rows import held, key, once

from tallymark_spark_jobs.lake.compaction import compact
from tallymark_spark_jobs.lake.opening import Lake

pytestmark = pytest.mark.process

PROGRAM = """
import random, sys, time
sys.path[:0] = sys.argv[3].split(":")
from lake_rows import append, key
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.table import Conflict, OffsetRange
table = Lake(sys.argv[1], sys.argv[2]).table("dc1", "page-views")
while True:
    snapshot = table.open()
    offsets = table.offsets(snapshot)
    spans = [OffsetRange(key(n), at := offsets.get(key(n), 0), at + 5) for n in range(2)]
    try:
        table.commit(snapshot, append(table.location, *spans))
        print("committed", flush=True)
    except Conflict:
        print("refused", flush=True)
    time.sleep(random.uniform(0, 0.4))
"""


@pytest.mark.parametrize(
    "lake", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)], indirect=True
)
def test_loaders_that_are_killed(lake: Lake) -> None:
    """Two at a time on the same partitions, each killed after a moment: while it lands, while it
    commits, or in between. A compaction runs beside them."""
    chance = random.Random(7)
    path = ":".join(entry for entry in sys.path if entry)
    arguments = [sys.executable, "-c", PROGRAM, lake.path, lake.format, path]
    table = lake.table("dc1", "page-views")
    for _ in range(3):
        running = [subprocess.Popen(arguments, stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for each in running:
                for _ in range(chance.randint(1, 4)):
                    assert each.stdout is not None
                    assert each.stdout.readline() in (b"committed\n", b"refused\n")
            compact(table, 1 << 20, job="job")
            time.sleep(chance.uniform(0, 0.1))
        finally:
            for each in running:
                os.kill(each.pid, signal.SIGKILL)
                each.communicate()
    newest = table.open()
    ends = [table.offsets(newest)[key(number)] for number in range(2)]
    assert min(ends) >= 15
    assert held(table.location, newest) == once((0, 0, ends[0]), (1, 0, ends[1]))
    assert sum(one.rows for one in table.history() if one.operation == "load") == sum(ends)
    assert all(len(one.tallies) == 4 for one in table.history() if one.operation == "load")
    assert Path(table.location).is_dir()
